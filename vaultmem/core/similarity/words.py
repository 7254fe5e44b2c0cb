"""Words that carry no fact of their own, and words that turn a statement round.

A word that is missing here costs a duplicate that is not seen; a word too many merges two facts.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Function words of English and German: present or absent, the fact stays the same.
STOP = _words(
    """
    a about again also am an and any approximately approx are around as at be because been
    being both but by ca circa did do does doing done due each every everyone everybody all
    for from get gets getting got had has have having he her here hers him his how i in into
    is it its me my of off on onto or our ours out over own per please plus roughly shall
    she should so such than that the their them then there these they this those through
    thus to too toward towards under up upon us using very via was we were what where which
    while who whom whose why will version with within would you your yours s re ve ll d must
    may can could might with if when whenever above below before after until till since
    against between during aber alle allem allen aller alles als also am an auch auf aus bei
    beim bis da das dass dem den denen der deren des die dies diese diesem diesen dieser
    dieses durch ein eine einem einen einer eines er es für haben hat hatte ich ihr ihre
    ihrem ihren im in ins ist jede jedem jeden jeder jedes kann können mit muss müssen nach
    seine seinem seinen seiner sich sie sind sollte soll so um und uns unser unsere vom von
    vor war waren wegen weil werden wer wie wir wird wo wurde seit bis ab wurden zu zum zur
    über unter oder wenn falls darf dürfen dann uhr per pro man
    """
)

#: Words that may come, go or be swapped: they name no fact.
LIGHT = _words(
    """
    need require requirement go goes give set stay remain operate put bring stand lie let
    seem appear actually able allowed call come hold keep listen name save store already
    always apparently available basically become certain correctly currently definitely
    ensure exactly existing find generally happen indeed itself just known kind locate look
    make mean mind normally now occur ok place possible really regard regarding remember
    reside respective respectively simply sit still sure take too together preserve retain
    sein themselves therefore turn type typically use usually utilise utilize way well live
    belong perform execute run http https derzeit einfach eigentlich gerade immer jeweils
    momentan nun schon wirklich bitte führen nutzen verwenden benutzen liegen bleiben gehen
    geben stehen befinden
    """
)

#: What a name or number is: `issue #412` is `#412`, `the table seats` is `seats`.
LABELS = _words(
    """
    branch class code column command commit endpoint env environment error field file flag
    folder function header id issue key method module option package parameter path port
    script service status table ticket time times type variable befehl datei fehler feld
    funktion klasse modul ordner tabelle
    """
)

#: Who does it anyway: `the server rejects uploads` is `uploads are rejected`.
GENERIC = _words(
    """
    company content data entry item people process program server software somebody someone
    staff system team thing tool value
    """
)

#: Words that hold a negation inside: what is left when it is taken out.
NEGATED = """
    unsupported supported unavailable available unable able impossible possible unused used
    unsafe safe invalid valid insecure secure incompatible compatible disallowed allowed
    forbidden allowed prohibited allowed unnecessary necessary unlocked locked inactive active
    verboten erlaubt unmöglich möglich
"""

#: German function words that are other words in English.
GERMAN_ONLY = _words(
    """
    falls die war man hat den als also bis ab an am per uhr des wird
    """
)

ENGLISH_TOO = _words("also am an per")

NEGATIONS = _words(
    """
    not no never none neither nor without nobody nothing nowhere cannot non nicht nie
    niemals nichts niemand ohne weder kein keine keinem keinen keiner keines
    """
)

#: Words behind which a statement stops to hold.
EXCEPTIONS = _words(
    """
    except excepting excluding unless außer ausgenommen
    """
)

CONDITIONS = _words(
    """
    if when whenever while once wenn falls sofern sobald solange
    """
)

ONLY = _words(
    """
    only solely exclusively nur ausschließlich lediglich
    """
)

UNCERTAIN = _words(
    """
    might maybe perhaps possibly probably vielleicht womöglich
    """
)

SOME = _words(
    """
    some several few many most sometimes often rarely manche einige viele manchmal oft
    """
)

MUST = _words(
    """
    must shall should ought muss müssen soll sollte sollen
    """
)

MAY = _words(
    """
    may can could might darf dürfen kann können
    """
)

PAST, PRESENT, FUTURE = (_words(each) for each in ("was were", "is are", "will"))

#: Words that tie what follows to the rest.
RELATIONS = _words(
    """
    from to into onto before after by than over under through via against behind on until
    since for of in with then at as because when if above below without within per during
    between von nach vor durch bis seit ab auf mit als weil wenn falls bei für aus an um
    ohne über unter gegen
    """
)

#: Those of them that turn a statement round where what follows is another word.
DIRECTIONS = _words(
    """
    from to into onto before after by than over until since then above below behind against
    as because when if weil wenn falls von nach vor durch bis seit ab als gegen
    """
)

#: Those behind which a whole clause may stand.
CLAUSAL = _words("before after until since because when if bis weil wenn falls")

#: Verbs that take back what they stand with: one more of these says the opposite.
TAKING_BACK = _words(
    """
    abort avoid ban block break cancel cease close delay delete deny disable drop end
    exclude fail finish forbid forget halt ignore lack lose miss omit postpone prevent
    prohibit refuse reject remove revoke share skip stop suspend undo withdraw
    """
)

#: Words before which and behind which a verb stands.
AUXILIARIES = _words(
    """
    is are was were be been being gets get got has have had will would can could may might
    must should to we you they i he she it wird werden wurde wurden ist sind hat haben
    """
)

#: Pairs of relations and little words that contradict each other.
OPPOSITES = """
    before after above below over under from to up down until since until from until after
    on off in out more less most least vor nach über unter bis seit bis ab bis nach von nach
"""

ENVIRONMENTS = _words(
    """
    staging production development sandbox preview qa uat localhost local test ci canary
    produktion entwicklung testumgebung
    """
)

#: Words by which the language of a text is guessed.
GERMAN_MARKS = _words(
    """
    der die das und ist nicht mit für auf ein eine wird werden von wir im den dem zum zur
    bei nach vor nur des am als sind muss hat
    """
)
ENGLISH_MARKS = _words("the and is not with for on of are to by from we at must has")

#: Little words that an item of an enumeration may have beside it.
BESIDE_ITEMS = _words("and or the a an only also und oder der die das den dem ein eine nur auch")

#: Words that join two clauses.
JOINING = _words(
    """
    and but or then while because although whereas if when whenever unless und aber oder
    dann während weil obwohl wenn falls
    """
)

#: Words that stand for what was named before.
PRONOUNS = _words("it they them its their one es sie ihn ihr")

COPULAS = _words("is are was were be ist sind wird werden war waren")

TIMES_OF_DAY = _words("night nights morning evening nacht nachts morgen abend")
