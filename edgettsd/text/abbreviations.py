"""Words that decide whether a full stop ends a sentence. All in lower case, without the final stop.

English first, with what is common in the other languages of models that use the Latin or Cyrillic
script. Single letters and dotted letters ("J. R. R. Tolkien", "U.S.") need no entry.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Something always follows: the stop never ends a sentence.
LEADING = _words(
    """
    mr mrs ms messrs dr drs prof rev hon pres gov sen rep gen col maj capt cmdr lt sgt cpl pvt adm
    e.g eg i.e ie vs v.s cf viz approx ca c.f al esp incl
    fr frl dipl ing bzw z.b d.h u.a u.u s.o s.u vgl evtl ggf sog
    mme mlle mgr
    sra srta ud uds dña
    sig sig.ra sig.na dott dott.ssa avv geom
    dra exmo exma
    т.е т.к т.д ул просп пл см
    """
)

# A number follows ("No. 5", "Fig. 3", "Jan. 12"); before anything else it is an ordinary word.
NUMBERED = _words(
    """
    no nos nr núm num art arts fig figs vol vols pp pg ch chap sec sect eq eqs ref app ex par para
    jan feb febr mar apr jun jul aug sep sept oct nov dec
    abs kap bd tel ziff стр рис табл гл
    """
)

# May end a sentence: it does when a word that opens sentences follows.
TRAILING = _words(
    """
    inc ltd co corp llc plc bros dept est univ assn mt ft st sr jr esq ave blvd rd sq bldg apt
    mm hrs hr min mins secs max misc temp avg ext tel
    gmbh usw str stk std jh
    ltda cía av avda pza
    г гг др руб тыс млн млрд
    """
)

# Clock times and the like: they end a sentence before a capital, unless one of AFTER_TIME follows.
CLOCK = _words("a.m p.m am pm etc")
AFTER_TIME = _words(
    """
    monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun
    january february march april may june july august september october november december
    utc gmt est edt et cst cdt ct mst mdt mt pst pdt pt cet cest bst ist jst
    """
)

# A number with a stop before one of these is an ordinal ("am 5. Mai").
AFTER_ORDINAL = _words(
    """
    januar jänner februar märz april mai juni juli august september oktober november dezember
    jahrhundert jahrhunderts
    """
)

# Words that open sentences and hardly ever follow a name's initial or a company's "Inc.".
OPENERS = _words(
    """
    the this that these those there then it its he she we they you i my your his her our their
    but and so or if in on at as for from after before because when while where what who why how which
    is are was were do does did can could will would should please now here today yes also however
    some all many most each every one two both another let
    der die das ein eine es er sie wir ihr ich und aber doch wenn dann dort hier heute danach auch
    le les un une il elle nous vous ils elles et mais puis ensuite
    el los una ella nosotros ellos pero entonces luego
    lo gli ma poi quando perché
    o os uma ele ela eles mas depois
    он она оно они мы вы это но и а в на потом когда если
    """
)
