"""Word lists of English: what is no term, what says little, and irregular forms."""

from __future__ import annotations

#: Function words, question words and auxiliaries.
STOP_WORDS = frozenset(
    """
    a about above after again all am an and any are as at be because been before being below
    between both but by can could d did do does doing done down during each few for from
    further had has have having he her here hers herself him himself his how i if in into is
    it its itself just ll m me more most my myself no nor of off on once only or other our
    ours ourselves out over own re s same shall she should so some such t than that the their
    theirs them themselves then there these they this those through to too under until up ve
    very was we were what when where which while who whom whose why will with would you your
    yours yourself yourselves
    """.split()  # noqa: SIM905 - a hundred quoted words read worse.
)

#: Words of talk around a question: greetings, politeness, hedges, verbs of asking and telling,
#: vague nouns. They are indexed and found, and count half in a question that has other words.
WEAK_WORDS = frozenset(
    """
    actually ago ahead already also always another anyone anything appreciate ask asked back
    basically believe bit certainly come dear definitely discuss discussed discussing even ever
    every everyone everything exactly feel feeling felt fine forward gave get getting give given
    go goes going good got great guess hello help hey hi hope keep kept kind know known let lets
    like look looking lot made make making many may maybe mean mention mentioned might move much
    must need needed needs next nothing now ok okay perhaps please previous previously probably
    put quite ready really recall regarding remember right said say see seen session set simply
    someone something soon sorry sort sound sounds start started still stuff sure take taken
    talk talked talking tell thank thanks thing things think thought time today told took tried
    try trying understand use used using want wanted wants way ways welcome well went wonder
    yeah yes yet
    """.split()  # noqa: SIM905
)

#: Forms that no stemmer brings together with their base form.
IRREGULAR_FORMS = {
    form: base
    for base, forms in {
        "arise": "arose arisen",
        "bear": "bore borne",
        "become": "became",
        "begin": "began begun",
        "bend": "bent",
        "bind": "bound",
        "bite": "bit bitten",
        "blow": "blew blown",
        "break": "broke broken",
        "bring": "brought",
        "build": "built",
        "buy": "bought",
        "catch": "caught",
        "child": "children",
        "choose": "chose chosen",
        "come": "came",
        "deal": "dealt",
        "draw": "drew drawn",
        "drink": "drank drunk",
        "drive": "drove driven",
        "eat": "ate eaten",
        "fall": "fell fallen",
        "feed": "fed",
        "feel": "felt",
        "fight": "fought",
        "find": "found",
        "fly": "flew flown",
        "foot": "feet",
        "forget": "forgot forgotten",
        "freeze": "froze frozen",
        "get": "got gotten",
        "give": "gave given",
        "go": "went gone",
        "grow": "grew grown",
        "hang": "hung",
        "hear": "heard",
        "hide": "hid hidden",
        "hold": "held",
        "index": "indices",
        "keep": "kept",
        "know": "knew known",
        "lead": "led",
        "leave": "left",
        "lend": "lent",
        "life": "lives",
        "lose": "lost",
        "make": "made",
        "man": "men",
        "matrix": "matrices",
        "mean": "meant",
        "meet": "met",
        "mouse": "mice",
        "pay": "paid",
        "person": "people",
        "ride": "rode ridden",
        "ring": "rang rung",
        "rise": "rose risen",
        "run": "ran",
        "say": "said",
        "see": "saw seen",
        "seek": "sought",
        "sell": "sold",
        "send": "sent",
        "shake": "shook shaken",
        "shoot": "shot",
        "show": "shown",
        "shrink": "shrank shrunk",
        "sing": "sang sung",
        "sit": "sat",
        "sleep": "slept",
        "slide": "slid",
        "speak": "spoke spoken",
        "spend": "spent",
        "spin": "spun",
        "stand": "stood",
        "steal": "stole stolen",
        "stick": "stuck",
        "strike": "struck",
        "swear": "swore sworn",
        "sweep": "swept",
        "swim": "swam swum",
        "swing": "swung",
        "take": "took taken",
        "teach": "taught",
        "tear": "tore torn",
        "tell": "told",
        "think": "thought",
        "throw": "threw thrown",
        "tooth": "teeth",
        "understand": "understood",
        "wake": "woke woken",
        "wear": "wore worn",
        "wife": "wives",
        "win": "won",
        "withdraw": "withdrew withdrawn",
        "woman": "women",
        "write": "wrote written",
    }.items()
    for form in forms.split()
}
