"""Tables of the English reader: abbreviations, units, currencies, symbols and letters of other alphabets."""

from __future__ import annotations


def _table(text: str) -> dict[str, str]:
    """Lines of "key = words", several to a line when separated by semicolons."""
    entries = (entry for line in text.splitlines() for entry in line.split(";") if entry.strip())
    return {key.strip(): value.strip() for key, value in (entry.split("=") for entry in entries)}


MONTHS = "january february march april may june july august september october november december".split()
MONTH_NAMES = {name: name for name in MONTHS} | {
    short: name
    for name in MONTHS
    for short in (name[:3], "sept" if name == "september" else name[:3])
    if name != "may"
}
"""Names and abbreviations of months, in lower case, without a full stop."""

WEEKDAYS = _table("mon = monday; tue = tuesday; tues = tuesday; wed = wednesday; thu = thursday")
WEEKDAYS |= _table("thur = thursday; thurs = thursday; fri = friday; sat = saturday; sun = sunday")

# Abbreviations that stand with a full stop, in lower case without it. St. and No. have rules of their own.
DOTTED = _table(
    """
    mr = mister; mrs = missus; ms = miz; dr = doctor; prof = professor; rev = reverend; hon = honorable
    sgt = sergeant; capt = captain; lt = lieutenant; gen = general; col = colonel; maj = major; gov = governor
    sen = senator; rep = representative; pres = president; adm = admiral; cmdr = commander; pvt = private
    jr = junior; sr = senior; inc = incorporated; ltd = limited; co = company; corp = corporation
    bros = brothers; dept = department; univ = university; assn = association; ave = avenue
    blvd = boulevard; rd = road; hwy = highway; pkwy = parkway; apt = apartment; bldg = building; mt = mount
    ft = fort; vs = versus; etc = et cetera; approx = approximately; est = estimated; incl = including
    excl = excluding; misc = miscellaneous; temp = temperature; avg = average; max = maximum; min = minimum
    tel = telephone; ext = extension; fig = figure; figs = figures; vol = volume; vols = volumes; ch = chapter
    chap = chapter; sec = section; sect = section; eq = equation; ref = reference; ed = edition
    pp = pages; p = page; nos = numbers; e.g = for example; i.e = that is; cf = compare; viz = namely
    a.k.a = also known as; resp = respectively; al = al; jan = january; feb = february; mar = march
    apr = april; jun = june; jul = july; aug = august; sep = september; sept = september; oct = october
    nov = november; dec = december
    """
)
# Of these, the ones that are ordinary words too: abbreviations only before something that fits.
NUMBERED = frozenset("fig figs vol vols ch chap sec sect eq p pp no nos".split())
WORDS_TOO = frozenset("gen col rep pres co ave est al ed ms jan mar jun sen max min p".split())

# Abbreviations without a full stop, as written.
PLAIN = _table(
    """
    Mr = mister; Mrs = missus; Ms = miz; Dr = doctor; Prof = professor; Jr = junior; Sr = senior
    vs = versus; etc = et cetera; eg = for example; ie = that is; approx = approximately; w/ = with
    w/o = without; b/c = because; and/or = and or; aka = also known as; Inc = incorporated; Ltd = limited
    WiFi = why fi; Wi-Fi = why fi; wifi = why fi; Wifi = why fi; WIFI = why fi; Linux = linnux
    OK = okay; ok = okay; Ok = okay; iOS = i. o. s.; macOS = mac o. s.; PhD = p. h. d.; Ph.D = p. h. d.
    TVs = t. vees; PCs = p. cees; IDs = i. dees; MHz = megahertz; GHz = gigahertz; kHz = kilohertz
    JSON = jason; YAML = yammel; SQL = sequel; GUI = gooey; ASAP = a. s. a. p.; sudo = sue do
    vim = vim; nginx = engine ex; Qwen = kwen; TTS = t. t. s.; 24/7 = twenty four seven; kWh = kilowatt hours
    I/O = i. o.; TCP/IP = t. c. p. i. p.; AC/DC = a. c. d. c.; e.g = for example; i.e = that is
    Bros = brothers; Hz = hertz; dB = decibels
    """
)

# Capitals that are always spelled, whatever the dictionary says.
SPELLED = frozenset(
    "US USA UK EU UN UAE AI PC TV IT ID IP IO OS PM AM BC AD AC DC GB LA NY NYC DJ CD DVD FM HD LED "
    "GPS CPU GPU "
    "API URL USB UTC GMT EST PST CET ATM CEO FBI CIA DNA VIP ETA FAQ DIY SOS NFL NBA BBC CNN HR PR QR RV "
    "SUV UFO VPN VR AR ER EMS LP MP NGO OEM PDF PhDs SD SSD UI UX UPS UV".split()
)
# Of these, the ones that are words when the whole text is in capitals.
WORDS_IN_CAPITALS = frozenset("US IT AM AD ID LA IO LED".split())
# Capitals that are said as a word.
SAID = frozenset(
    "NASA NATO RAM ROM LAN WAN SIM PIN LASER RADAR UNICEF SONAR SCUBA AIDS OPEC COVID ALSA GIF".split()
)

# Units behind a number, as written, with their singular and plural.
UNITS: dict[str, tuple[str, str]] = {
    key: (one, many)
    for line in """
        km = kilometer kilometers; m = meter meters; cm = centimeter centimeters; mm = millimeter millimeters
        µm = micrometer micrometers; nm = nanometer nanometers; mi = mile miles; ft = foot feet
        in = inch inches; yd = yard yards; kg = kilogram kilograms; g = gram grams; mg = milligram milligrams
        µg = microgram micrograms; lb = pound pounds; lbs = pound pounds; oz = ounce ounces; t = ton tons
        l = liter liters; L = liter liters; ml = milliliter milliliters; mL = milliliter milliliters
        cl = centiliter centiliters; dl = deciliter deciliters; gal = gallon gallons; s = second seconds
        sec = second seconds; secs = second seconds; ms = millisecond milliseconds
        µs = microsecond microseconds; ns = nanosecond nanoseconds; min = minute minutes
        mins = minute minutes; h = hour hours; hr = hour hours; hrs = hour hours; d = day days
        B = byte bytes; kB = kilobyte kilobytes; KB = kilobyte kilobytes; MB = megabyte megabytes
        GB = gigabyte gigabytes; TB = terabyte terabytes; PB = petabyte petabytes; KiB = kibibyte kibibytes
        MiB = mebibyte mebibytes; GiB = gibibyte gibibytes; kbit = kilobit kilobits; Mbit = megabit megabits
        Gbit = gigabit gigabits; Hz = hertz hertz; kHz = kilohertz kilohertz; MHz = megahertz megahertz
        GHz = gigahertz gigahertz; W = watt watts; kW = kilowatt kilowatts; MW = megawatt megawatts
        mW = milliwatt milliwatts; Wh = watt-hour watt-hours; kWh = kilowatt-hour kilowatt-hours
        V = volt volts; mV = millivolt millivolts; kV = kilovolt kilovolts; A = amp amps
        mA = milliamp milliamps
        mAh = milliamp-hour milliamp-hours; Ah = amp-hour amp-hours; J = joule joules
        kJ = kilojoule kilojoules
        cal = calorie calories; kcal = kilocalorie kilocalories; N = newton newtons; Pa = pascal pascals
        hPa = hectopascal hectopascals; kPa = kilopascal kilopascals; psi = p.-s.-i. p.-s.-i.
        bar = bar bars; mbar = millibar millibars; K = kelvin kelvins; °C = degree-celsius degrees-celsius
        °F = degree-fahrenheit degrees-fahrenheit; ° = degree degrees; °K = kelvin kelvins
        dB = decibel decibels; dBm = decibel-m. decibel-m.; Ω = ohm ohms; kΩ = kilohm kilohms
        lx = lux lux; lm = lumen lumens; ppm = part-per-million parts-per-million; rpm = r.-p.-m. r.-p.-m.
        mph = mile-per-hour miles-per-hour; kph = kilometer-per-hour kilometers-per-hour
        km/h = kilometer-per-hour kilometers-per-hour; kmh = kilometer-per-hour kilometers-per-hour
        m/s = meter-per-second meters-per-second; Mbps = megabit-per-second megabits-per-second
        Mbit/s = megabit-per-second megabits-per-second; Gbps = gigabit-per-second gigabits-per-second
        MB/s = megabyte-per-second megabytes-per-second; GB/s = gigabyte-per-second gigabytes-per-second
        kbps = kilobit-per-second kilobits-per-second; fps = frame-per-second frames-per-second
        mg/l = milligram-per-liter milligrams-per-liter; px = pixel pixels; dpi = d.-p.-i. d.-p.-i.
        m^2 = square-meter square-meters; m^3 = cubic-meter cubic-meters
        km^2 = square-kilometer square-kilometers
        cm^2 = square-centimeter square-centimeters; ft^2 = square-foot square-feet
        sqft = square-foot square-feet
        mm^2 = square-millimeter square-millimeters; cm^3 = cubic-centimeter cubic-centimeters
        """.splitlines()
    for entry in line.split(";")
    if entry.strip()
    for key, one, many in (entry.replace("=", " ").split(),)
}
# Units that are words of ordinary text: units only where they touch the number, a stop or the end.
UNCERTAIN_UNITS = frozenset("in t d A K N B s h l V W J L m g".split())

# Sign -> (one, many, hundredth, hundredths).
CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "jeon", "jeon"),
    "₽": ("ruble", "rubles", "kopek", "kopeks"),
    "¢": ("cent", "cents", "", ""),
}
CURRENCY_CODES = {
    "USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩", "RUB": "₽",
}  # fmt: skip
MULTIPLES = _table(
    """
    k = thousand; K = thousand; m = million; M = million; mn = million; bn = billion; B = billion
    tn = trillion
    thousand = thousand; million = million; billion = billion; trillion = trillion; T = trillion
    """
)

# How a sign is read where nothing else explains it.
SYMBOLS = _table(
    """
    & = and; @ = at; + = plus; % = percent; < = less than; > = greater than; ° = degrees; § = section
    ± = plus or minus
    × = times; ÷ = divided by; ≈ = approximately; ≤ = less than or equal to; ≥ = greater than or equal to
    ≠ = not equal to; √ = square root of; ∞ = infinity; µ = micro; Ω = ohm; → = to; ← = from; ⇒ = to
    € = euros; £ = pounds; ¥ = yen; ‰ = per mille; $ = dollars; ¢ = cents; ¬ = not; ∑ = sum; π = pie
    ∆ = delta
    """
) | {"=": "equals"}
# How a sign is read inside addresses and names of files.
ADDRESS_SYMBOLS = _table(
    ". = dot; / = slash; @ = at; - = dash; _ = underscore; : = colon; ? = question mark; & = and; # = hash"
) | {"=": "equals", "+": "plus", "%": "percent", "~": "tilde", "\\": "backslash"}

MARKS = {
    ",": ",", ";": ";", ":": ":", ".": ".", "!": "!", "?": "?", "…": ",", "—": ",", "–": ",",
    "(": ",", ")": ",",
    "[": ",", "]": ",", "{": ",", "}": ",", "|": ",", "•": ",", "·": ",", "\n": ",", "¿": "", "¡": "",
    "。": ".", "、": ",", "！": "!", "？": "?", "؟": "?", "،": ",", "।": ".", "‥": ",",
}  # fmt: skip

# Capitalised words before which a Roman numeral counts ("Chapter IV") or names a ruler ("Henry VIII").
COUNTED = frozenset(
    "chapter part section volume book act scene phase type class level stage title article appendix war step "
    "grade page unit lesson figure table round super bowl rocky version mark world".split()
)
RULERS = frozenset(
    "henry george louis charles elizabeth edward james william richard john paul pius benedict gregory leo "
    "alexander peter catherine frederick francis philip ferdinand napoleon nicholas king queen pope emperor "
    "ivan otto leopold victor albert alfonso constantine justinian darius xerxes ramses thutmose".split()
)

# Words that make a number of three digits behind them a name: "room 404" is room four oh four.
NUMBER_NAMES = frozenset(
    "room flight route channel boeing airbus error code gate bus highway interstate extension "
    "apartment suite train line platform area porsche model".split()
)
# Of these, the ones that also make a name of four digits: "room 1204" is room twelve oh four.
LONG_NAMES = NUMBER_NAMES - frozenset("line area extension".split())
# Words that make a number with a letter behind them a name, whatever unit the letter could be: "bus 42A".
_LETTERED = (
    "bus gate flat room apartment apt seat route highway building unit platform exit bay terminal block "
    "suite size line model class grade section figure table question step appendix form lot row track "
    "ward bed zone sector area channel interstate house studio door train tram chapter annex part "
    "exercise problem page note article rule paragraph schedule tower hall floor level deck berth pier "
    "stand court aisle bin slot stop junction desk counter stage phase type version iphone plan option "
    "locker booth district hangar runway plot road street avenue group pump car coach cabin shelf rack "
    "case item variant"
).split()
LETTERED_NAMES = frozenset(
    (*_LETTERED, *(f"{name}{'es' if name.endswith(('s', 'x')) else 's'}" for name in _LETTERED), "number")
)
# Words that do so also before a small d, g, l or s with nothing behind it: "flat 3d".
HOMES = frozenset("flat apartment apt iphone phone".split())
# Words that never stand for what a number counts: in "order 4711 is late" nothing is counted.
AFTER_CODES = frozenset(
    "please now today tomorrow tonight here there then when where while via using because so "
    "ships left opens closes expires remains needs requires says shows comes goes not still again "
    "first before after until if instead into immediately yet too only also".split()
)
# Words that make a/b behind them a mark (4 out of 5), or a place in a row (page 3 of 10).
RATINGS = frozenset("rated rates rating ratings score scored scores review graded".split())
PLACES = frozenset(
    "page step part slide chapter disc disk track question lesson round task file item test "
    "attempt message photo image episode lap game frame screen chunk batch".split()
)
POWERS = {"2": "squared", "3": "cubed"}

# Words that tell that a number of four digits is a year.
YEAR_WORDS = frozenset(
    "in since of year from until till by before after during circa around early late mid summer "
    "winter spring "
    "autumn fall between and to through copyright".split()
)

# Letters of other alphabets that do not decompose into an ASCII letter.
LETTERS = {
    "ß": "ss", "æ": "ae", "ø": "o", "ł": "l", "đ": "d", "ð": "th", "þ": "th", "œ": "oe", "ı": "i", "ħ": "h",
    "ŋ": "ng", "ĸ": "k", "ſ": "s", "ə": "e", "ŧ": "t",
    "α": "a", "β": "b", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k",
    "λ": "l", "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t",
    "υ": "y", "φ": "f", "χ": "ch", "ψ": "ps", "ω": "o",
    "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ж": "zh", "з": "z", "и": "i", "й": "y",
    "к": "k", "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u",
    "ф": "f", "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "y", "ь": "", "э": "e",
    "ю": "yu", "я": "ya", "і": "i", "ї": "yi", "є": "ye", "ґ": "g", "ў": "u",
}  # fmt: skip

# Alone, a Greek letter is read by its name.
GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρστυφχψω",
        (
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mew new ksi omicron pie row "
            "sigma tau upsilon fie kai sigh omega"
        ).split(),
        strict=True,
    )
)
