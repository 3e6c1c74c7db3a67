"""What the oracle runs: one row per behaviour of the official prompt code, and texts for the tokenizer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

TASKS = ("custom_voice", "voice_design", "base")


@dataclass(frozen=True, slots=True)
class Case:
    """One greedy utterance. `voice` "x-vector" stands for a reference embedding (Base only)."""

    name: str
    task: str
    text: str
    layout: str = "streaming"
    voice: str | None = None
    language: str | None = None
    instruct: str | None = None
    repetition_penalty: float = 1.05

    def settings(self) -> dict[str, Any]:
        """The case as plain data for meta.json."""
        return asdict(self)


_EN = "Good morning. The kettle is ready."
_ZH = "早上好，水壶已经准备好了。"
_MIX = "OK 👍🏽 — 今天 23.5°C, naïve café… “yes”!\nSecond line 2."
_LONG = "The second train leaves platform nine at a quarter past seven, and it stops at every village."

CASES: tuple[Case, ...] = (
    Case("streaming", "custom_voice", _EN, voice="ryan", language="english"),
    Case("full", "custom_voice", _EN, "full", voice="ryan", language="english"),
    Case("streaming-auto", "custom_voice", _ZH, voice="Vivian"),
    Case("full-auto", "custom_voice", _MIX, "full", voice="serena", language="Auto"),
    Case("streaming-mixed", "custom_voice", _MIX, voice="sohee", language="Korean"),
    Case("streaming-dialect-auto", "custom_voice", _MIX, voice="eric"),
    Case("streaming-early-end", "custom_voice", _ZH, voice="eric"),
    Case("full-dialect-chinese", "custom_voice", _ZH, "full", voice="dylan", language="chinese"),
    Case("streaming-dialect-english", "custom_voice", _EN, voice="eric", language="english"),
    Case("streaming-no-voice", "custom_voice", _EN, language="german"),
    Case(
        "streaming-instruct",
        "custom_voice",
        _EN,
        voice="ryan",
        language="english",
        instruct="Whisper. 小声说",
    ),
    Case("full-instruct", "custom_voice", _LONG, "full", voice="aiden", instruct="Speak very happily."),
    Case("streaming-no-penalty", "custom_voice", _LONG, voice="ryan", repetition_penalty=1.0),
    Case("streaming-empty", "custom_voice", "", voice="ryan", language="english"),
    Case("streaming-one-token", "custom_voice", "Hi", voice="ryan", language="english"),
    Case("full-empty", "custom_voice", "", "full", voice="ryan", language="english"),
    Case("streaming-newlines", "custom_voice", "\n\nTwo breaks first.", voice="ryan"),
    Case("design-streaming", "voice_design", _EN, language="english", instruct="A calm old man."),
    Case("design-full", "voice_design", _ZH, "full", instruct="温柔的女声，语速偏慢。"),
    Case("design-no-instruct", "voice_design", _EN, "full", language="french", instruct=""),
    Case("base-streaming-x-vector", "base", _EN, voice="x-vector", language="english"),
    Case("base-full-x-vector", "base", _ZH, "full", voice="x-vector"),
    Case("base-streaming-no-voice", "base", _EN, language="italian"),
    Case("base-full-no-voice", "base", _LONG, "full"),
)

# The built-in voice: its front end makes one token a frame, so there is no full layout, and it takes no
# instructions.
VOICE_CASES: tuple[Case, ...] = (
    Case("voice", "custom_voice", _EN, voice="joe", language="english", repetition_penalty=1.0),
    Case("voice-auto", "custom_voice", "It is 7:45.", voice="joe", repetition_penalty=1.0),
    Case(
        "voice-long",
        "custom_voice",
        "The second train leaves platform nine at a quarter past seven.",
        voice="joe",
        language="english",
        repetition_penalty=1.0,
    ),
    Case("voice-penalty", "custom_voice", "Stop!", voice="joe", language="english"),
    Case("voice-empty", "custom_voice", "", voice="joe", language="english", repetition_penalty=1.0),
)

# Ordinary text of many kinds; the ids of the official tokenizer are written to tokens.json.
TEXTS: tuple[str, ...] = (
    "",
    " ",
    "Hello",
    " Hello  world ",
    "Hello, world! It's 5 p.m.; Dr. Kim's temperature is 98.6°F (37°C).",
    "I'll can't WE'VE they'd you're i'm",
    "1234567890 3.14159 1,000,000 2026-11-29 10:45",
    "https://example.org/a?b=c&d=%20#e user@example.org C:\\path\\file.txt",
    "snake_case camelCase kebab-case  a+b=c  #hash @at $5 50% ^~`|<>[]{}",
    "今天天气很好，我们去公园吧！价格是￥128.50。",
    "早上 good morning 世界 world，混合 text。",
    "こんにちは。カタカナとひらがな、漢字。",
    "안녕하세요, 반갑습니다.",
    "Привет, как дела? Ёжик.",
    "Grüße aus Köln — naïve façade, smørrebrød, İstanbul",
    "cafe\u0301 decomposed, Å ångström, ﬁ ligature",
    "😀 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ ✈",
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया ไทย",
    "line one\nline two\r\nline three\n\n\nline four\ttab\t\ttabs",
    "\n\nleading breaks",
    " \n leading space and break",
    "trailing breaks\n\n",
    "trailing space   ",
    "…—–‘’“”«»¿¡ ™ © ½ ² № ∑ √ ≠ →",
    "full\u3000width　ＡＢＣ１２３ nb\u00a0space zero\u200bwidth thin\u2009space",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "YouTube, iPhone, GitHub and JavaScript; WiFi at 5 GHz, PhD, McDonald's, LaTeX, USA's NASAish kWh",
    "'sorry' 'tis 'them' rock 'n' roll, ‘don’t’ O'Neill's 'LLAMA' x'd",
    "Élan ÉCOLE Ñandú ÑANDÚ ǅungla Straße ΑΒΓδε ЖУКжук",
    "สวัสดีครับ हिन्दी में বাংলা தமிழ் العَرَبِيَّة x̂ȳ Zalgo҉",
    "and/or km/h ./\n/path ?!\n/\r\n//",
    "½ ⅷ ٣٤٥ ४५ ¹²³ 10³",
    "<b>not markup</b> < | im_end | > <|not_a_token|>",
    "The quick brown fox jumps over the lazy dog. " * 8,
)
