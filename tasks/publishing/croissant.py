"""croissant.json of a dataset version, which publish.py writes: Croissant 1.1 as plain JSON-LD.

    {"@type": "cr:Field", "@id": "pairs/test/evidence", "dataType": "sc:Text", "isArray": true,
     "arrayShape": "-1", "source": {"fileObject": {"@id": "test/a.parquet"}, "extract": {"column": ...}}}

There is one FileObject per Parquet file and one RecordSet `<config>/<split>` per split. mlcroissant (1.1.1) cannot read
one RecordSet from several FileObjects: a FileSet that is contained in them loses its columns. So a split of several
files is read through a FileSet that lists them. As a FileSet checks no hash, each of these files also has a RecordSet
`<path>/keys` of the key column alone. Reading every RecordSet checks the hash of every file.
"""

import json
import re
from typing import Any

import pyarrow as pa

from longform.errors import SchemaError
from tasks.publishing.card import (
    Config,
    File,
    Split,
    VersionFacts,
    doc_of,
    key_of,
    languages_of_version,
    licence_url,
    offline_note,
)

Node = dict[str, Any]

CONTEXT: Node = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}

DATA_TYPES = {
    pa.string(): "sc:Text",
    pa.large_string(): "sc:Text",
    pa.bool_(): "sc:Boolean",
    pa.date32(): "sc:Date",
    pa.int8(): "cr:Int8",
    pa.int16(): "cr:Int16",
    pa.int32(): "cr:Int32",
    pa.int64(): "cr:Int64",
    pa.uint8(): "cr:UInt8",
    pa.uint16(): "cr:UInt16",
    pa.uint32(): "cr:UInt32",
    pa.uint64(): "cr:UInt64",
    pa.float32(): "cr:Float32",
    pa.float64(): "cr:Float64",
}


def croissant(version: VersionFacts) -> str:
    """The text of croissant.json: nodes in a fixed order, a newline at the end. Splits without files are left out.

    SchemaError for a column whose type Croissant does not have (see `_data_type`).
    """
    splits = [(config, split) for config in version.configs for split in config.splits if split.files]
    files = [
        {
            "@type": "cr:FileObject",
            "@id": file.path,
            "name": file.path,
            "contentUrl": file.path,
            "contentSize": f"{file.bytes} B",
            "encodingFormat": "application/x-parquet",
            "sha256": file.sha256,
        }
        for _, split in splits
        for file in split.files
    ]
    sets = [
        {
            "@type": "cr:FileSet",
            "@id": f"files/{config.name}/{split.name}",
            "name": f"files of {config.name}/{split.name}",
            "encodingFormat": "application/x-parquet",
            "includes": [file.path for file in split.files],
        }
        for config, split in splits
        if len(split.files) > 1
    ]
    records = [node for config, split in splits for node in _record_sets(config, split)]
    dataset = {**_dataset(version), "distribution": files + sets, "recordSet": records}
    return json.dumps(dataset, indent=1, ensure_ascii=False) + "\n"


def semantic_version(name: str) -> str:
    """The version's name as MAJOR.MINOR.PATCH+BUILD, the only form Croissant takes without a warning.

    2026.01.05.2 -> 2026.1.5+2 (three numbers, no leading zeros); no +BUILD if nothing follows the three numbers. A
    name without three numbers at its start becomes the build: pilot_b -> 0.0.0+pilot-b.
    """
    found = re.match(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?![0-9])", name)
    core = ".".join(str(int(number)) for number in found.groups()) if found else "0.0.0"
    rest = name[found.end() :] if found else name
    build = re.sub(r"[^0-9A-Za-z]+", "-", rest).strip("-")
    return f"{core}+{build}" if build else core


def _dataset(version: VersionFacts) -> Node:
    """The properties of the dataset itself, all but its files (`distribution`) and its record sets (`recordSet`)."""
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": version.dataset,
        "alternateName": f"{version.title}, version {version.version}",
        "description": " ".join(filter(None, (version.summary, offline_note(version)))),
        "version": semantic_version(version.version),
        **({"datePublished": version.date_published} if version.date_published else {}),
        **({"inLanguage": spoken} if (spoken := languages_of_version(version)) else {}),
        **_dates(version),
        "license": [licence_url(licence) or licence for licence in version.licence],
        "citeAs": version.paper.citation,
        "creator": {"@type": "sc:Organization", "name": "longform"},
        "url": "README.md",
    }


def _dates(version: VersionFacts) -> Node:
    """When the sources' records were written, as a whole and site by site with the site's languages; {} if unknown."""
    if not version.site_facts:
        return {}
    first, last = min(facts.first for facts in version.site_facts), max(facts.last for facts in version.site_facts)
    sites = [
        {
            "@type": "sc:CreativeWork",
            "name": facts.site,
            "url": f"https://{facts.site}",
            "temporalCoverage": f"{facts.first}/{facts.last}",
            **({"inLanguage": facts.languages.main} if facts.languages and facts.languages.main else {}),
        }
        for facts in version.site_facts
    ]
    return {"temporalCoverage": f"{first}/{last}", "isBasedOn": sites}


def _record_sets(config: Config, split: Split) -> list[Node]:
    """The RecordSet of a split; if it has several files also one for each file, with the key column alone.

    Readers check the hash of a file only if a RecordSet reads it directly.
    """
    name, schema = f"{config.name}/{split.name}", config.schema
    if len(split.files) == 1:
        return [_record_set(name, schema, key_of(schema), _object(split.files[0]))]
    whole = _record_set(name, schema, key_of(schema), {"fileSet": {"@id": f"files/{name}"}})
    keys = pa.schema([schema.field(key_of(schema))])
    return [whole, *(_record_set(f"{f.path}/keys", keys, key_of(schema), _object(f)) for f in split.files)]


def _object(file: File) -> Node:
    """A reference to the FileObject of a file, as the source of a RecordSet."""
    return {"fileObject": {"@id": file.path}}


def _record_set(name: str, columns: pa.Schema, key: str, source: Node) -> Node:
    """The RecordSet node with a Field for each column.

    `name`: also its id. `key`: name of the key column. `source`: the reference to the file or file set that is read.
    """
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "key": {"@id": f"{name}/{key}"},
        "field": [_field(name, column, source) for column in columns],
    }


def _field(record_set: str, column: pa.Field, source: Node) -> Node:
    """The Field node of a column. A list is an array of values; a struct, or a list of structs, has a subField for each
    field of the struct. SchemaError for a type that is not in DATA_TYPES and no timestamp.

    `record_set`: the id of the RecordSet, with which the Field's id begins. `source`: the file or file set that is
    read.
    """
    is_list = pa.types.is_list(column.type)
    struct = column.type.value_type if is_list else column.type
    if pa.types.is_struct(struct) and struct.num_fields:
        return _field_of_structs(record_set, column, struct, source)
    return {
        "@type": "cr:Field",
        "@id": f"{record_set}/{column.name}",
        "name": column.name,
        "description": doc_of(column),
        "dataType": _data_type(column, column.type.value_type if is_list else column.type),
        **({"isArray": True, "arrayShape": "-1"} if is_list else {}),
        "source": {**source, "extract": {"column": column.name}},
    }


def _field_of_structs(record_set: str, column: pa.Field, struct: pa.StructType, source: Node) -> Node:
    """The Field node of a column that is a struct, or a list of structs.

    It has no dataType, but a subField for each field of the struct.
    """
    name = f"{record_set}/{column.name}"
    inner = [struct.field(number) for number in range(struct.num_fields)]
    return {
        "@type": "cr:Field",
        "@id": name,
        "name": column.name,
        "description": doc_of(column),
        **({} if column.type == struct else {"isArray": True, "arrayShape": "-1"}),
        "subField": [
            {
                **_field(name, one, source),
                "source": {
                    **source,
                    "extract": {"column": column.name},
                    "transform": {"jsonPath": f"$.{one.name}"},
                },
            }
            for one in inner
        ],
    }


def _data_type(column: pa.Field, type: pa.DataType) -> str:
    """The Croissant dataType of an Arrow type; sc:DateTime for every timestamp.

    SchemaError, which names the column, for a type that is not in DATA_TYPES.
    """
    if pa.types.is_timestamp(type):
        return "sc:DateTime"
    if type not in DATA_TYPES:
        raise SchemaError(
            f"Column {column.name} has type {column.type}, but a published column is a scalar, a struct or a "
            "list of these: flatten it before publishing, or add its Croissant type to tasks/publishing/croissant.py."
        )
    return DATA_TYPES[type]
