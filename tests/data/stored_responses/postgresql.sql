CREATE SCHEMA longform;
CREATE TABLE longform.holder (
    endpoint text NOT NULL,
    owner text NOT NULL,
    wanted integer NOT NULL,
    held integer NOT NULL,
    until timestamp with time zone NOT NULL
);
CREATE TABLE longform.job (
    name text NOT NULL,
    endpoint text,
    state text NOT NULL,
    requests bigint,
    reserved_nano bigint,
    remote text,
    input_file text,
    created double precision NOT NULL,
    context text NOT NULL
);
CREATE TABLE longform.job_item (
    job text NOT NULL,
    place integer NOT NULL,
    key bytea NOT NULL
);
CREATE TABLE longform.lease (
    key bytea NOT NULL,
    owner text NOT NULL,
    until timestamp with time zone NOT NULL
);
CREATE TABLE longform.ledger (
    id uuid NOT NULL,
    number bigint NOT NULL,
    created double precision NOT NULL,
    run text,
    dataset text,
    stage text,
    recipe text,
    endpoint text,
    model text,
    key bytea,
    answered boolean NOT NULL,
    input_tokens bigint,
    cached_tokens bigint,
    output_tokens bigint,
    cost_nano bigint,
    batch boolean NOT NULL
);
ALTER TABLE longform.ledger ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME longform.ledger_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE longform.meta (
    k text NOT NULL,
    v text NOT NULL
);
CREATE TABLE longform.response (
    key bytea NOT NULL,
    endpoint text COLLATE pg_catalog."C",
    model text COLLATE pg_catalog."C",
    task text COLLATE pg_catalog."C",
    prompt text,
    request bytea NOT NULL,
    body bytea NOT NULL,
    state smallint NOT NULL,
    code text,
    finish text,
    served_model text,
    fingerprint text,
    request_id text,
    input_tokens bigint,
    cached_tokens bigint,
    output_tokens bigint,
    reasoning_tokens bigint,
    token_limit bigint,
    milliseconds bigint,
    cost_nano bigint,
    batch boolean NOT NULL,
    created double precision NOT NULL
);
ALTER TABLE ONLY longform.response ALTER COLUMN request SET STORAGE EXTERNAL;
ALTER TABLE ONLY longform.response ALTER COLUMN body SET STORAGE EXTERNAL;
INSERT INTO longform.job VALUES ('ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', 'test', 'SUBMITTED', 2, 1500, 'batch_1', 'file_1', 1790000000.5, '{"given": {}}');
INSERT INTO longform.job_item VALUES ('ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', 0, '\xabababababababababababababababababababababababababababababababab');
INSERT INTO longform.job_item VALUES ('ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', 1, '\x0101010101010101010101010101010101010101010101010101010101010101');
INSERT INTO longform.ledger OVERRIDING SYSTEM VALUE VALUES ('1dcecb16-c24b-4b8d-bb5a-8fcaafcaecc9', 1, 1795417464.4505334, 'run-1', 'cellars', 'answer', 'r1', 'test', 'model-x', '\x015d4a76e43ce7bc8f0eb952d5164a47e250c7f0d578474a0690bcafe77617b3', true, 20, 4, 3, 26000, false);
INSERT INTO longform.ledger OVERRIDING SYSTEM VALUE VALUES ('1b60bf6a-eeac-40b7-b7a0-a34f947357ba', 2, 1795417464.4638948, 'run-1', 'cellars', 'answer', 'r1', 'test', 'model-x', '\x08d8378d7fe46571b92bbaa022853ba474e74670a5152426b87596a63f575cd0', true, 20, 4, 1800, 3620000, false);
INSERT INTO longform.ledger OVERRIDING SYSTEM VALUE VALUES ('4aad854e-35d4-40a0-8dd3-c6278636340e', 3, 1795417464.4702973, 'run-1', 'cellars', 'answer', 'r1', 'test', 'model-x', '\x8043659368839a4bfe30b41a560d9d130c9e8b827a186b0a9fa15667311a2404', true, 20, 4, 11, 42000, false);
INSERT INTO longform.ledger OVERRIDING SYSTEM VALUE VALUES ('686aeed1-cd02-4ed0-a792-46ca936274ba', 4, 1795417464.4824219, 'run-1', 'cellars', 'answer', 'r1', 'test', 'model-x', '\xcfdaa538230db4faf12eda97bcb22b3ccffdc129732f1492ab36999ba19be6f6', true, 20, 4, 2, 24000, false);
INSERT INTO longform.ledger OVERRIDING SYSTEM VALUE VALUES ('cfc4ff68-b92b-4d30-85e6-0aaccdac4f7f', 5, 1795417464.4914868, 'run-1', 'cellars', 'answer', 'r1', 'test', 'model-x', '\xe1a56d9785d67a40e14fd34021dcef6d574da363824ed633b9d71f7596250bdb', true, 20, 4, 4, 28000, false);
INSERT INTO longform.ledger OVERRIDING SYSTEM VALUE VALUES ('18d84f4d-22f1-4bf7-a8c1-7a869f47d8d2', 6, 1795417464.5131614, 'run-1', 'cellars', 'answer', 'r1', 'test', 'model-x', '\x76a38612fd78d982b693e253609530a79ca3fa58b86ae63db05272449fef6962', true, 20, 4, 1, 22000, false);
INSERT INTO longform.ledger OVERRIDING SYSTEM VALUE VALUES ('68ec67e0-bd9c-44bf-8ed0-a030b3bb8502', 7, 1795417464.5138624, 'run-1', 'cellars', 'answer', 'r1', 'test', 'model-x', '\x202b97073c320add68d77b502dc00c4ca17eac119e0f26a37df645a2db568eb3', true, 20, 4, 2, 24000, false);
INSERT INTO longform.ledger OVERRIDING SYSTEM VALUE VALUES ('1a5a6983-8c8f-4f0d-996c-6c502060ccbe', 8, 1795417464.5214653, 'run-1', 'cellars', 'answer', 'r1', 'test', 'model-x', '\x9879d06a86af9cc9f9b5d58c418adea1729ad18969840f2f8478f99daec043b4', true, 5, 0, 0, 5000, false);
INSERT INTO longform.meta VALUES ('format', '1');
INSERT INTO longform.meta VALUES ('key_version', '1');
INSERT INTO longform.response VALUES ('\x015d4a76e43ce7bc8f0eb952d5164a47e250c7f0d578474a0690bcafe77617b3', 'test', 'model-x', 'cellar/answers', 'abc123', '\x7801558cb10a023110447f254c1d45c442ae113bff41e408e722c16c56b27be4e4c8bf1b2c04abe10d6f660587659c845f892c4a1e4d9e9415c37e77387a30a9860775beae28920803f4ad460c8f49b251b65e9db3562a5b34ffb366a5f2e75ca4ba1a0abba82eda09edd6efe54ea9efbfb959d03ef8f5309b', '\x7801558ecd6a03310c845f65d1b9096dd243e973f4d60663ecc9aea9d73696f2c7e2778fbc8586dc4633f3315a2878fa1cc8d1cb4073f688fd5ac5e6ba61d4337c8ff8c682d91c431a514b0d497aef58ccdbf073f21ffbb5e4a61c1c5893ef8542f2b8aa7c555ab1c093a9b09c530759725917c16c47a8b550cdb10bb2cc81c5ea82922e27c1dfd8d705f18cc163ac006fa9b583164eff7ca9792e6224ff22f51f767dd9a9172121a747b057ffa96c3cc486d8a1859c7513fca3fdde5abb039cdf6185', 0, NULL, 'stop', 'model-x-served', 'fp_1 \ud83d', 'req-1', 20, 4, 3, 0, 2048, 1, 26000, false, 1795417464.4505334);
INSERT INTO longform.response VALUES ('\x08d8378d7fe46571b92bbaa022853ba474e74670a5152426b87596a63f575cd0', 'test', 'model-x', 'cellar/answers', 'abc123', '\x7801558dc10ac2400c447f25e4bc8aa887d29bffe04d4b09dd548bd94dd96cb152faefae1e044fc30c6f66160c34b79d8651380f1adbac0f8e86f57e77ac1c0636a31b177f5930a930d6682fcb1cd061a73173cc253a457b72dae2ea7ed4649cfe98338b406020110777921eae93af0e1eb4078291864fbf2997ea59cae6573733ae6ff7b236b5', '\x7801edd95d4a03311007f0ab843cb7d0aa0fc51b7806951092693798cd2c99a95496dcdd64058b5790ffdbec7c3010f6f734ab4dd13e1b1becced89923e5f1b505fbdb5ea87e521c25f912a5d99d53b9505d6a2a3aface8b3b9ab76b3c3d6e4d61e214487ae575b5a944baf5f0d0a7fb5892c955f2c2650c8af2b26d24117fa19e5a6de53c02eb4592a8ef1bfa64e0a2f4b3ec454d12133847a31355da1964f01af813a0000aa0000aa0000aa0000aa0000aa0000aa0000aa0000aa0000aa0000aa0000aa0000afeab02dbda7bbf185e7f0f8a4be57951a7fc41651c251fc62932f45c264d5cee85e3e9304a7ffa5d24f5298fb9d5061f268af781a7d6da37e35bbb6e', 0, NULL, 'stop', 'model-x-served', 'fp_1 \ud83d', 'req-1', 20, 4, 1800, 0, 2048, 0, 3620000, false, 1795417464.4638948);
INSERT INTO longform.response VALUES ('\x8043659368839a4bfe30b41a560d9d130c9e8b827a186b0a9fa15667311a2404', 'test', 'model-x', 'cellar/answers', 'abc123', '\x780155504b4fc3300cfe2b95cf0521c401ed8210178edc275499c46bb3e551ec545d55e5bfe33018e59438f99e5e21e0b933298c9eb24bb1cbe9445160777ff7f0d8422011ec49e7fd0a9c3cc10e64914c015a3029668a599f9ea3ccc4b750da2b6a12e27f98d734373372681b8cb699076786c6a09ce409cabb3a254b5ea5becf9bb35299644c51a83b240ea8362be465ac098ea241c50c145071db49311143c5bc90f75813486667949d79229d2eac3fadf47124fd6e61e434126757cbae60a967ba5c7f4c9d96edb553d1e235f6260f32e3a2124ef7b27dafd6b1875294c3f4393926ab9bbc8aff2a697db4d6d5fda37fdbe438a017527af902996e92d8', '\x7801558edb6ac3300c865f25e8ba85a5dbc5d8abd4c5185b4d4c12cb584ae9307ef7c919acec4efa0ffa542106f81ac0c369808d02ae7d3b86f3f3cc581e18bac5df2cb8d97b4c13965c62929ebb673b0e660f9fef47c8cf143db23ad70a31057ceaf8a66dad459e6d41c7947a9185f241446637a14a150aad7d00c71c599c12b4e92909fec2aa8180534164a3b1f1721a0c78c7cbb15e0d905b8c56549c9125ed62e0d6a0b59b9ed9ff28b9d096c50a2d98faa797fe9f576d4589945ec638aaf12f6d038a8b6b6f55252b26bce21fadb51f62326cfc', 0, NULL, 'stop', 'model-x-served', 'fp_1 \ud83d', 'req-1', 20, 4, 11, 0, 2048, 0, 42000, false, 1795417464.4702973);
INSERT INTO longform.response VALUES ('\xcfdaa538230db4faf12eda97bcb22b3ccffdc129732f1492ab36999ba19be6f6', 'test', 'model-x', 'cellar/answers', 'abc123', '\x7801558d410ac2301444af52661d5d4b37e2295c88941007539ae44bfe172b257737b8105c0d6f78cc6cc87e9d82e447a2cd5226938545311e1c3255fd9d1d2e1baa246284bed598e110a4188bf5ea54f4c5ba47733feba9ac7fce39ce210ec1eba283af1c2cb2f28876ed2f7263ea33dfdcad681ffd8b32bf', '\x7801558d5b8ac3300c45b712f4dd421ff3317413b3806931c6561351470e965a5a82f73e7206faf8bbd2bd8733034538741060d5c19823a6762d617d5f0b961bc656c94314477726eeb14c8558dbee3cb96d77bcc6effd320a43a68062cdef0cc411ef1637461b4632b8825e32373021f73a2c4e14f13dda738692530be04548d49bc3d89059f15ff7e32fabce73845a4fd65c9fe054f238a9d37c416efa5d9306fb2554cafc56d8ff63ec22aaa7d4a019820f03c6d7faabd6fa077dd45f36', 0, NULL, 'length', 'model-x-served', 'fp_1 \ud83d', 'req-1', 20, 4, 2, 0, 8, 0, 24000, false, 1795417464.4824219);
INSERT INTO longform.response VALUES ('\xe1a56d9785d67a40e14fd34021dcef6d574da363824ed633b9d71f7596250bdb', 'test', 'model-x', 'cellar/answers', 'abc123', '\x7801558db10a023110447f256c1d051b8b6bc4afb01039421ccc71c9ae6457eee4c8bf1b2c04abe10d8f998d4a58c728e5996193f06832839586c3d153816a78a0d375a32a193490bed550c8531436b0f5eaccbaa0eea9f99ff552d43fe792a6985c0c3aab0b15ce122a4ed46efd45eec87de69bbb95da071dfd32ee', '\x7801558e494e04310c45af1279dd8d9816884b7000405194b8bbacaeb2a3d8851a9572779c4262d8fdfc21cf1b5081e700190e011629388fd72e8ed7a362fbc03222fd54c3259e88cfd86a23b6d13bd57817ded6f2f4b097f22494513d79dd80b8e0d5e5adaf7d463ac5864985c7504dea4e44d57446b73668320f014995d492137c99850dbf612fe97208894bc813aaf16a37d0fbbb77d69f2f6a93a55a34b9208f33ee073cbb37a391f06ff0e8febf722c6889e631da202747943feddefb1796106238', 0, NULL, 'stop', 'model-x-served', 'fp_1 \ud83d', 'req-1', 20, 4, 4, 0, 16, 0, 28000, false, 1795417464.4914868);
INSERT INTO longform.response VALUES ('\x64db6c1fc8dbe2a89b63ec230aad4c702291331c9fe27ac69cb1fca520e4f9b4', 'test', 'model-x', 'cellar/answers', 'abc123', '\x7801558dc10ac23010447f25ec398a8807e945fc068f2225a66b139aec4a768b95927f3778103c0d6f78ccac90ddd27bcecf841a997ae50949a0dbef0e470b1945dc888daf2b144e081dc85b143358f04c8aa4ad3a93bcb06ca1da9f350b963fe7c21935441a8d06a7c699474c8ac5044e8398bbf3d309eaad5df280a96d7e73b340fd003432382e', '\x78013331305048cecf2b49cd2b894fcbcc29492d52c848cd4951484a4cce06008b670a03', 1, 'filter', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2048, NULL, NULL, false, 1795417464.502);
INSERT INTO longform.response VALUES ('\x202b97073c320add68d77b502dc00c4ca17eac119e0f26a37df645a2db568eb3', 'test', 'model-x', 'cellar/answers', 'abc123', '\x7801558cc10ac24010437f45725e45c483f426f8172265a941c4dd19d91969a5f4df1d3c089ec20b2f9951f3d40f5a9f857e57e95d1f1443b7dbee0f099566f9c6e0f38ca685e8606f7356240c2a4ef1a88e6223db064bfa592f63fb734e2d8f2b1586758963bdb2c4f29beb09cb07d6822e7c', '\x7801558dcb6e02310c457f65e4355405baa8d8f21905455162188b99388a3d15d528ff8e339578ecae7defd1998122ec3b08b0ea60e48843bb96b0bead05cb2fc656c99f288eee4ce98225174ada76e7ec36dd718adfbb65147aa68062cdcf0c9422de2c7e1a6d1849ef0a7ae1d44051ce8b1145fc05ed3543e1a105f02224eacd6064e0a4f82f3bf4289a26fd805a4f564d0f32171eb33ae52ba666df3667b0df804a9c5e0afbbf8d5d44f534346886e0438ff1b9feaab5de0151a75f5c', 0, NULL, 'stop', 'model-x-served', 'fp_1 \ud83d', 'req-1', 20, 4, 2, 0, 2048, 0, 24000, false, 1795417464.5138624);
INSERT INTO longform.response VALUES ('\x76a38612fd78d982b693e253609530a79ca3fa58b86ae63db05272449fef6962', 'test', 'model-x', 'cellar/answers', 'abc123', '\x7801558cc10ac24010437f45725e45c483f426f8172265a941c4dd19d91969a5f4df1d3c089ec20b2f9951f3d40f5a9f857e57e95d1f1443b7dbee0f099566f9c6e0f38ca685e8606f7356240c2a4ef1a88e6223db064bfa592f63fb734e2d8f2b1586758963bdb2c4f29beb09cb07d6822e7c', '\x7801558dd16ec2300c457fa5f2f34003f680f8093e60435194186ab58da3d84c4c55fe1da793a878b3efbd4767068a70ea20c0470713471cdbb71c9bc746b0fc626c95fc89e2e4ae946e5872a1a46d77cd6ed7fddce3f1b08c42cf1450acf99e8152c4879d9f461b46d2bb825e38355094f36244117f438b66283cb603bc08897a3318193829fecbce7ed842ad174bef2f28179eb23ae5015313ef9b2e5836a212a7b5d859fe367611d5d3d8a019820f3dc675fd556b7d0246895d28', 0, NULL, 'stop', 'model-x-served', 'fp_1 \ud83d', 'req-1', 20, 4, 1, 0, 2048, 0, 22000, false, 1795417464.5131614);
INSERT INTO longform.response VALUES ('\x55d065517f21974b68b7cca77a0b8a1d8d22338742385435668c07c1d5c4096e', 'test', 'model-x', 'embeddings', '', '\x7801ab56cacc2b282d51b2524a54484ecdc9492c52d251cacd4f49cd010a8169dd0aa55a00f5e90c94', '\x7801ab564acd4d4a4d49c9cc4b57b28a36d0333030d431d13388ad05006a01077b', 0, NULL, NULL, 'model-x-served', NULL, NULL, 0, 0, 0, 0, NULL, 1, 0, false, 1795417464.5214653);
INSERT INTO longform.response VALUES ('\x9879d06a86af9cc9f9b5d58c418adea1729ad18969840f2f8478f99daec043b4', 'test', 'model-x', 'embeddings', '', '\x7801ab56cacc2b282d51b2524a4e2cce2e56d251cacd4f49cd01f2c1b46e85522d00d4530bb5', '\x7801ab564acd4d4a4d49c9cc4b57b28a36d03332d5d135d4338dad05006a1e0780', 0, NULL, NULL, 'model-x-served', NULL, NULL, 5, 0, 0, 0, NULL, 1, 5000, false, 1795417464.5214653);
SELECT pg_catalog.setval('longform.ledger_number_seq', 8, true);
ALTER TABLE ONLY longform.holder
    ADD CONSTRAINT holder_pkey PRIMARY KEY (endpoint, owner);
ALTER TABLE ONLY longform.job_item
    ADD CONSTRAINT job_item_pkey PRIMARY KEY (job, place);
ALTER TABLE ONLY longform.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (name);
ALTER TABLE ONLY longform.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (key);
ALTER TABLE ONLY longform.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (id);
ALTER TABLE ONLY longform.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (k);
ALTER TABLE ONLY longform.response
    ADD CONSTRAINT response_pkey PRIMARY KEY (key);
CREATE INDEX ledger_dataset ON longform.ledger USING btree (dataset);
CREATE INDEX response_task ON longform.response USING btree (endpoint, model, task, created);
