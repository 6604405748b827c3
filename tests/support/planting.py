"""Texts in eleven languages, written for these tests, and edits that are planted in them one by one.

A text is three paragraphs of five sentences, a list and, in some, a block of code. `plant` takes a draft's sentences to
those of its reference by edits of which each has a place of its own, with a sentence between that stays.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import category


@dataclass(frozen=True)
class Language:
    """`sentences`: 15, in paragraphs of five; `spare`: three that the text does not have; `items`: of its list.

    `stop`: what ends a sentence; `link`: what joins two; `blank`: what stands between them; `word`: a word that the
    text does not have, to stand in place of another.
    """

    sentences: list[str]
    spare: list[str]
    items: list[str]
    word: str
    stop: str = "."
    link: str = ", and "
    blank: str = " "


class Planted(NamedTuple):
    """One edit: its kind, words that it takes out, words that it puts in ("" for none)."""

    kind: str
    old: str
    new: str


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


LANGUAGES = {
    "English": Language(
        lines("""
            The old ferry crosses the river at dawn.
            Its captain, Mr. Alder, has steered it for thirty years.
            Nobody remembers who built the wooden landing on the north bank.
            In winter the ice closes the crossing for several weeks.
            Children then skate to school instead of waiting for the bell.
            The market opens when the first cart has arrived.
            Farmers sell onions, wool and smoked eel from low tables.
            A woman from the hills brings honey in clay jars, e.g. lime honey.
            By noon most of the bread is gone.
            Dogs sleep under the empty benches until evening.
            Our library owns about two thousand books.
            Most of them were left by a doctor who never married.
            The reading room is heated with peat on cold afternoons.
            Visitors must write their names in a green ledger.
            Last year the roof was mended with slate from the quarry.
        """),
        lines("""
            Two swans nested beside the mill last spring.
            The bridge tax paid for a new clock.
            A fiddler plays there on feast days.
        """),
        lines("""
            a coil of tarred rope
            two lanterns with spare wicks
            oats for the grey horse
            letters for the schoolmaster
        """),
        "copper",
    ),
    "German": Language(
        lines("""
            Die alte Mühle steht am Rand des Dorfes.
            Ihr Rad dreht sich seit dem 3. Oktober nicht mehr.
            Der Müller hatte z. B. Roggen und Dinkel gemahlen.
            Heute wohnt dort eine Töpferin mit zwei Söhnen.
            Sie verkauft Krüge, Teller und kleine Vasen.
            Im Sommer kommen viele Wanderer durch das Tal.
            Manche zelten auf der Wiese hinter der Kirche.
            Abends spielt Dr. Brandt auf seiner Geige.
            Die Kinder fangen Glühwürmchen in Gläsern.
            Gegen Mitternacht wird es endlich kühl.
            Unsere Schule bekam im letzten Jahr neue Fenster.
            Das Geld stammte aus einer Sammlung der Bäcker.
            Seitdem ist es in den Klassenzimmern viel leiser.
            Die Lehrerin lobt besonders das helle Licht.
            Nur der Hausmeister vermisst die alten Rahmen.
        """),
        lines("""
            Ein Storch brütet auf dem Schornstein.
            Die Feuerwehr probt jeden Mittwoch.
            Niemand kennt den Namen der Quelle.
        """),
        lines("""
            ein Sack Mehl
            drei Pfund Butter
            frische Hefe vom Bäcker
            eine Prise Salz
        """),
        "Kupfer",
        link=", und ",
    ),
    "French": Language(
        lines("""
            Le phare domine la baie depuis deux siècles.
            Son gardien, M. Lenoir, élève des chèvres blanches.
            Chaque soir il monte les cent marches sans lampe.
            Les pêcheurs disent qu'il parle aux mouettes.
            Personne ne l'a jamais vu en ville.
            Le marché se tient sur la place du vieux port.
            On y trouve des huîtres, du sel gris, etc.
            Une marchande vend aussi des paniers d'osier.
            Vers onze heures les bancs sont déjà vides.
            Les pigeons ramassent alors les miettes de pain.
            L'école a reçu un piano de la ville voisine.
            Il manque trois touches dans les notes graves.
            La maîtresse joue quand même des valses lentes.
            Les enfants chantent plus fort que d'habitude.
            En juin ils donneront un petit concert.
        """),
        lines("""
            Un voilier rouge a coulé près des rochers.
            Le boulanger cherche un apprenti sérieux.
            La neige tombe rarement sur cette côte.
        """),
        lines("""
            une corde de chanvre
            deux bouées jaunes
            du goudron pour la coque
            une carte des récifs
        """),
        "cuivre",
        link=", et ",
    ),
    "Spanish": Language(
        lines("""
            El tren sube despacio hacia la sierra.
            Lo conduce la Sra. Robles desde hace diez años.
            En cada curva suena una campana de bronce.
            Los viajeros miran los olivos por la ventana.
            Nadie lleva prisa en ese vagón de madera.
            La plaza mayor se llena los domingos.
            Allí se venden quesos, miel y mantas de lana.
            Un anciano afila cuchillos junto a la fuente.
            A mediodía cierran casi todos los puestos.
            Los gatos duermen sobre las piedras calientes.
            El museo guarda mapas dibujados por marineros.
            Algunos muestran islas que nunca existieron.
            La directora quiere restaurar los más antiguos.
            Hace falta dinero para comprar vitrinas nuevas.
            El ayuntamiento decidirá en primavera.
        """),
        lines("""
            Una cigüeña vive en la torre de la iglesia.
            El pozo se secó durante la guerra.
            Mi abuela tejía redes para los pescadores.
        """),
        lines("""
            una linterna pequeña
            cuatro botellas de agua
            pan y queso curado
            un mapa de la sierra
        """),
        "cobre",
        link=", y ",
    ),
    "Russian": Language(
        lines("""
            Старый паром ходит через реку каждое утро.
            Его капитан живёт в деревне с 1987 г. и никуда не уезжает.
            Зимой лёд закрывает переправу на несколько недель.
            Тогда дети идут в школу прямо по реке.
            Никто не помнит имени первого паромщика.
            На рынке продают мёд, шерсть и копчёную рыбу.
            Торговцы приезжают ещё до восхода солнца.
            Женщина с холмов привозит глиняные кувшины.
            К полудню почти весь хлеб уже раскуплен.
            Собаки спят под пустыми лавками до вечера.
            Наша библиотека хранит две тысячи книг.
            Большинство из них подарил одинокий врач.
            Читальный зал топят торфом в холодные дни.
            Посетители записывают имена в зелёную тетрадь.
            В прошлом году крышу покрыли новым железом.
        """),
        lines("""
            Возле мельницы поселились два лебедя.
            Музыкант играет там по праздникам.
            Колодец высох во время войны.
        """),
        lines("""
            моток просмолённой верёвки
            два фонаря с фитилями
            овёс для серой лошади
            письма для учителя
        """),
        "медный",
        link=", и ",
    ),
    "Chinese": Language(
        lines("""
            老渡船每天清晨横过大河。
            船长已经掌舵三十年了。
            没有人记得北岸的木码头是谁修建的。
            冬天冰雪会封住航道好几个星期。
            那时孩子们滑着冰去学校上课。
            第一辆马车到达以后集市才开门。
            农民在矮桌上卖洋葱、羊毛和熏鱼。
            一位山里的妇女用陶罐装来蜂蜜。
            到了中午面包几乎都卖光了。
            几条狗在空长凳下面睡到傍晚。
            我们的图书馆大约有两千本书。
            其中大部分是一位医生留下的遗产。
            阅览室在寒冷的下午用泥炭取暖。
            来访者必须在绿色账本上签名。
            去年屋顶换上了采石场的石板。
        """),
        lines("""
            两只天鹅春天在磨坊旁边筑巢。
            桥税用来购买一座新钟。
            节日里有人在那里拉小提琴。
        """),
        lines("""
            一卷涂了焦油的绳子
            两盏带灯芯的灯笼
            灰马吃的燕麦
            给校长的几封信
        """),
        "铜",
        stop="。",
        link="，而且",
        blank="",
    ),
    "Japanese": Language(
        lines("""
            古い渡し船は夜明けに川を渡ります。
            船長は三十年も舵を取ってきました。
            北岸の桟橋を誰が作ったのか誰も覚えていません。
            冬になると氷が何週間も航路を閉ざします。
            その間、子供たちは滑って学校へ通います。
            最初の荷車が着くと市場が開きます。
            農夫は低い机で玉葱や羊毛を売っています。
            山の女性は土の壺に蜂蜜を入れて運びます。
            昼までにパンはほとんど無くなります。
            犬は空いた長椅子の下で夕方まで眠ります。
            町の図書館には本が二千冊ほどあります。
            大半は独身の医者が残したものです。
            読書室は寒い午後に泥炭で暖められます。
            訪問者は緑の帳簿に名前を書かなければなりません。
            去年、屋根は採石場の石で直されました。
        """),
        lines("""
            春に水車小屋のそばで白鳥が巣を作りました。
            橋の税金で新しい時計を買いました。
            祭りの日には楽師が演奏します。
        """),
        lines("""
            太い縄を一巻き
            予備の芯がついた灯り
            灰色の馬のための麦
            先生あての手紙
        """),
        "銅",
        stop="。",
        link="、そして",
        blank="",
    ),
    "Thai": Language(
        lines("""
            เรือข้ามฟากลำเก่าข้ามแม่น้ำทุกเช้า
            กัปตันบังคับเรือมาสามสิบปีแล้ว
            ไม่มีใครจำได้ว่าใครสร้างท่าเรือไม้
            ฤดูหนาวน้ำแข็งปิดทางเดินเรือหลายสัปดาห์
            เด็กนักเรียนจึงเดินข้ามไปโรงเรียน
            ตลาดเปิดเมื่อเกวียนคันแรกมาถึง
            ชาวนาขายหัวหอมกับขนแกะบนโต๊ะเตี้ย
            หญิงชาวเขานำน้ำผึ้งใส่ไหดินเผามา
            พอถึงเที่ยงขนมปังก็เกือบหมด
            สุนัขนอนใต้ม้านั่งว่างจนเย็น
            ห้องสมุดของเรามีหนังสือสองพันเล่ม
            ส่วนใหญ่หมอที่ไม่เคยแต่งงานมอบให้
            ห้องอ่านหนังสืออบอุ่นด้วยถ่านหิน
            ผู้มาเยือนต้องลงชื่อในสมุดสีเขียว
            ปีที่แล้วหลังคาซ่อมด้วยหินชนวน
        """),
        lines("""
            หงส์สองตัวทำรังข้างโรงสี
            ภาษีสะพานใช้ซื้อนาฬิกาใหม่
            นักดนตรีเล่นซอในวันเทศกาล
        """),
        lines("""
            เชือกเส้นใหญ่หนึ่งม้วน
            ตะเกียงสองดวง
            ข้าวโอ๊ตสำหรับม้าสีเทา
            จดหมายถึงครูใหญ่
        """),
        "ทองแดง",
        stop="",
        link="และ",
    ),
    "Arabic": Language(
        lines("""
            تعبر العبّارة القديمة النهر عند الفجر.
            يقودها القبطان منذ ثلاثين سنة.
            لا أحد يتذكر من بنى الرصيف الخشبي.
            في الشتاء يغلق الجليد المعبر عدة أسابيع.
            عندئذ يذهب الأطفال إلى المدرسة مشيا.
            يفتح السوق حين تصل أول عربة.
            يبيع الفلاحون البصل والصوف والسمك المدخن.
            تحمل امرأة من الجبال العسل في جرار الطين.
            عند الظهر ينفد معظم الخبز.
            تنام الكلاب تحت المقاعد الفارغة حتى المساء.
            تملك مكتبتنا نحو ألفي كتاب.
            ترك معظمها طبيب لم يتزوج قط.
            تدفأ قاعة القراءة بالفحم في الأيام الباردة.
            يكتب الزوار أسماءهم في دفتر أخضر.
            أصلح السقف في العام الماضي بحجارة المقلع.
        """),
        lines("""
            بنت بجعتان عشهما قرب الطاحونة.
            دفعت ضريبة الجسر ثمن ساعة جديدة.
            هل يعزف الموسيقي هناك في الأعياد؟
        """),
        lines("""
            لفة من الحبال السميكة
            فانوسان مع فتائل
            شوفان للحصان الرمادي
            رسائل لمدير المدرسة
        """),
        "نحاسي",
        link="، و",
    ),
    "Hindi": Language(
        lines("""
            पुरानी नाव हर सुबह नदी पार करती है।
            उसका कप्तान तीस साल से नाव चला रहा है।
            किसी को याद नहीं कि लकड़ी का घाट किसने बनाया।
            सर्दियों में बर्फ़ कई हफ़्तों तक रास्ता रोक देती है।
            तब बच्चे बर्फ़ पर चलकर स्कूल जाते हैं।
            पहली गाड़ी आने पर बाज़ार खुलता है।
            किसान नीची मेज़ों पर प्याज़ और ऊन बेचते हैं।
            पहाड़ की एक औरत मिट्टी के घड़ों में शहद लाती है।
            दोपहर तक लगभग सारी रोटी बिक जाती है।
            कुत्ते शाम तक ख़ाली बेंचों के नीचे सोते हैं।
            हमारे पुस्तकालय में दो हज़ार किताबें हैं।
            अधिकतर एक अविवाहित डॉक्टर छोड़ गए थे।
            वाचनालय ठंडे दिनों में कोयले से गरम होता है।
            आगंतुकों को हरी बही में नाम लिखना पड़ता है।
            पिछले वर्ष छत खदान के पत्थर से सुधारी गई।
        """),
        lines("""
            दो हंसों ने चक्की के पास घोंसला बनाया।
            पुल के कर से नई घड़ी ख़रीदी गई।
            त्योहारों पर वहाँ एक वादक सारंगी बजाता है।
        """),
        lines("""
            मोटी रस्सी का एक बंडल
            बत्ती वाली दो लालटेनें
            भूरे घोड़े के लिए जई
            अध्यापक के लिए चिट्ठियाँ
        """),
        "ताँबा",
        stop="।",
        link=", और ",
    ),
    "Korean": Language(
        lines("""
            낡은 나룻배가 새벽마다 강을 건넌다.
            선장은 삼십 년 동안 배를 몰았다.
            북쪽 나무 부두를 누가 지었는지 아무도 모른다.
            겨울이면 얼음이 몇 주 동안 뱃길을 막는다.
            그때 아이들은 얼음 위로 학교에 간다.
            첫 수레가 도착하면 시장이 문을 연다.
            농부들은 낮은 탁자에서 양파와 양털을 판다.
            산에서 온 여인이 항아리에 꿀을 담아 온다.
            정오가 되면 빵이 거의 다 팔린다.
            개들은 저녁까지 빈 의자 밑에서 잔다.
            우리 도서관에는 책이 이천 권쯤 있다.
            대부분은 결혼하지 않은 의사가 남긴 것이다.
            열람실은 추운 오후에 이탄으로 데운다.
            방문객은 초록 장부에 이름을 적어야 한다.
            작년에 지붕을 채석장 돌로 고쳤다.
        """),
        lines("""
            봄에 백조 두 마리가 방앗간 옆에 둥지를 틀었다.
            다리 통행료로 새 시계를 샀다.
            축제 날에는 악사가 거기서 연주한다.
        """),
        lines("""
            굵은 밧줄 한 묶음
            심지가 달린 등불 두 개
            회색 말이 먹을 귀리
            교장에게 보낼 편지
        """),
        "구리",
        link=", 그리고 ",
    ),
}
CODE = ["total = 0", "for coin in purse:", "    total += coin.worth", "print(total)"]
KINDS = ("word", "remove", "add", "move", "merge", "split", "item", "item removed", "item added", "code")
NAMED = {"word": "change", "item": "change", "item removed": "remove", "item added": "add", "code": "change"}


def merged(language: Language, first: str, second: str) -> str:
    """Two sentences as one."""
    start = second[0] if language.blank == "" else second[0].lower()
    return first.removesuffix(language.stop) + language.link + start + second[1:]


def other_word(language: Language, sentence: str, pick: random.Random) -> tuple[str, str, str]:
    """(the sentence with another word in it, the word that went, the word that came)."""
    if " " in sentence:
        words = sentence.split(" ")
        at = pick.choice([at for at, word in enumerate(words) if word[-1] not in ".,?।" and len(word) > 2])
        words[at], old = language.word, words[at]
        return " ".join(words), old, language.word
    parts = [
        at for at in range(2, len(sentence) - 4) if category(sentence[at])[0] == category(sentence[at + 2])[0] == "L"
    ]
    at = pick.choice([at for at in parts if not set(sentence[at - 1 : at + 3]) & set(language.word)])
    return sentence[:at] + language.word + sentence[at + 2 :], sentence[at : at + 2], language.word


def plant(language: Language, kinds: list[str], pick: random.Random) -> tuple[str, str, list[Planted]]:
    """(draft, reference, the edits between them). At most five kinds have a place at a time."""
    draft: dict[int, list[str]] = {at: [sentence] for at, sentence in enumerate(language.sentences)}
    reference = {at: list(own) for at, own in draft.items()}
    items, other_items, code = list(language.items), list(language.items), list(CODE)
    spare = pick.sample(language.spare, len(language.spare))
    homes = pick.sample([1, 3, 6, 8, 11, 13], 6)
    planted: list[Planted] = []
    for kind in kinds:
        home = homes.pop() if kind in ("word", "remove", "add", "move", "merge", "split") else 0
        own = language.sentences[home]
        if kind == "word":
            changed, old, new = other_word(language, own, pick)
            reference[home] = [changed]
            planted.append(Planted("change", old, new))
        elif kind == "remove":
            reference[home] = []
            planted.append(Planted("remove", own, ""))
        elif kind == "add":
            reference[home] = [own, spare.pop()]
            planted.append(Planted("add", "", reference[home][1]))
        elif kind == "move":
            target = max(homes, key=lambda place: abs(place - home))
            homes.remove(target)
            reference[home], reference[target] = [], [language.sentences[target], own]
            planted.append(Planted("move", own, own))
        elif kind in ("merge", "split"):
            whole = merged(language, own, language.sentences[home + 1])
            side = reference if kind == "merge" else draft
            side[home], side[home + 1] = [whole], []
            planted.append(Planted(kind, "", ""))
        elif kind == "item":
            changed, old, new = other_word(language, items[1], pick)
            other_items[other_items.index(items[1])] = changed
            planted.append(Planted("change", old, new))
        elif kind == "item removed":
            other_items.remove(items[3])
            planted.append(Planted("remove", items[3], ""))
        elif kind == "item added":
            other_items.insert(0, spare[0])
            planted.append(Planted("add", "", spare[0]))
        else:
            code[2] = code[2].replace("worth", "value")
            planted.append(Planted("change", "worth", "value"))
    return text(language, draft, items, CODE), text(language, reference, other_items, code), planted


def text(language: Language, sentences: dict[int, list[str]], items: list[str], code: list[str]) -> str:
    """Paragraphs, list and code as one text."""
    paragraphs = [
        language.blank.join(sentence for at in range(start, start + 5) for sentence in sentences[at])
        for start in (0, 5, 10)
    ]
    return "\n\n".join([*paragraphs, "\n".join(f"- {item}" for item in items), "\n".join(["```", *code, "```"])])
