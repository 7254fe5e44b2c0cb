"""Names that look alike: by letters of other scripts, quotes and hidden marks."""

from __future__ import annotations

import unicodedata

#: Characters that look like a Latin letter or digit, by that. Source: `confusables.txt` 15.1 of
#: Unicode's Technical Standard 39; without letters that NFKC makes Latin, and right-to-left ones.
_ALIKE = {
    "2": "ƧϨᒿꙄꛯꝚ",
    "3": "ƷȜЗӠⳌꝪꞫ𑣊𖼻𝈆",
    "4": "Ꮞ𑢯",
    "5": "Ƽ𑢻",
    "6": "бᏮⳒ𑣕",
    "7": "𐓒𑣆𝈒",
    "8": "Ȣȣ৪੪𐌚",
    "9": "৭੧୨൭ⳊꝮ𑢬𑣌𑣖",
    "a": "ɑΑαАаᎪᗅ⍺ꓮ𐊠𖽀",
    "b": "ƄΒВЬᏏᏴᑲᖯᗷꓐꞴ𐊂𐊡𐌁",
    "c": "ϲϹСсᏟᴄⲤⲥꓚꮯ𐊢𐌂𐐕𐐽𐔜𑣩𑣲🝌",
    "d": "ԁᎠᏧᑯᗞᗪꓒꓓ",
    "e": "ΕЕеҽᎬ℮⋿ⴹꓰꬲ𐊆𑢦𑢮",
    "f": "ϜքᖴẝꓝꞘꞙꬵ𐊇𐊥𐔥𑢢𑣂𝈓",
    "g": "ƍɡԌցᏀᏳᶃꓖ",
    "h": "ΗНһհᎻᏂᕼⲎꓧ𐋏",
    "i": "ıɩɪ˛ͺιіӏᎥ⍳ꙇꭵ𑣃",
    "j": "ͿϳЈјᎫᒍꓙꞲ",
    "k": "ΚКᏦᛕⲔꓗ𐔘",
    "l": "ƖǀΙІӀ۱Ꮮᒪᛁ∣⏽ⲒⳐⵏꓡꓲ￨𐊊𐌉𐌠𐐛𐔦𑢣𑢲𖼖𖼨𝈪",
    "m": "ΜϺМᎷᗰᛖⲘꓟ𐊰𐌑",
    "n": "ΝոռⲚꓠ𐔓",
    "o": "ΟοσОоՕօ۵०০੦૦ଠ୦௦౦೦ഠ൦๐໐ဝ၀ჿዐᴏᴑⲞⲟⵔ〇ꓳꬽ𐊒𐊫𐐄𐐬𐓂𐓪𐔖𑓐𑢵𑣈𑣗𑣠",
    "p": "ΡρРрᏢᑭ⍴Ⲣⲣꓑ𐊕",
    "q": "ԛգզⵕ",
    "r": "ƦгᎡᏒᖇᴦⲅꓣꭇꭈꮁ𐒴𖼵𝈖",
    "s": "ƽЅѕՏᏕᏚꓢꜱꮪ𐊖𐐠𐑈𑣁𖼺",
    "t": "ΤТᎢ⊤⟙Ⲧꓔ𐊗𐊱𐌕𑢼𖼊🝨",
    "u": "ʋυՍսሀᑌᴜ∪⋃ꓴꞟꭎꭒ𐓎𐓶𑢸𑣘𖽂",
    "v": "νѴѵ۷Ꮩᐯᴠ∨⋁ⴸꓦꛟꮩ𐔝𑜆𑢠𑣀𖼈𝈍",
    "w": "ɯѡԜԝաᎳᏔᴡꓪꮃ𑜊𑜎𑜏𑣦𑣯",
    "x": "×ΧХхᕁᕽ᙭᙮ᚷ╳⤫⤬⨯ⲬⵝꓫꞳ𐊐𐊴𐌗𐌢𐔧𑣬",
    "y": "ɣʏΥγУуҮүყᎩᎽᶌỿⲨꓬꭚ𐊲𑢤𑣜𖽃",
    "z": "ΖᏃᴢꓜꮓ𐋵𑢩𑣄𑣥",
    "ae": "ÆæӔӕ",
    "ao": "Ꜵꜵ",
    "oe": "Œœ",
    "oo": "∞ꚘꚙꝎꝏ",
}

#: The letters and digits of ASCII that many fonts draw alike, as in `confusables.txt`.
_ASCII = str.maketrans("i1|0", "lllo")

_BY_MARK = {mark: latin for latin, marks in _ALIKE.items() for mark in marks}
#: A small letter goes with its capital, or names would differ by case.
_SMALL = {mark.lower(): latin for mark, latin in _BY_MARK.items() if len(mark.lower()) == 1}
_LATIN = str.maketrans(_SMALL | _BY_MARK)

#: Marks that change how the one before them is drawn, or nothing at all.
_UNSEEN = frozenset(map(chr, (0x34F, 0x115F, 0x1160, 0x3164, *range(0xFE00, 0xFE10))))


def fold_lookalikes(name: str) -> str:
    """Return the letters and digits of a name, so that names that look alike are the same.

    It is for comparisons alone, as the skeletons of Unicode's Technical Standard 39. A name without
    letters and digits is "".
    """
    seen = (c for c in name if unicodedata.category(c) != "Cf" and c not in _UNSEEN)
    plain = unicodedata.normalize("NFKC", "".join(seen).translate(_LATIN)).translate(_LATIN)
    folded = plain.casefold().translate(_LATIN).translate(_ASCII)
    return "".join(c for c in folded if c.isalnum() or unicodedata.category(c)[0] == "M")
