"""Words that a reader would swap without a thought in a note about work."""

from __future__ import annotations

#: Each line is one meaning; the first word stands for it.
SYNONYMS = """
    show display
    start begin commence launch started
    end finish expire conclude terminate
    leave depart
    store keep save persist hold
    skip ignore
    delete remove erase
    fetch retrieve
    get receive obtain
    send transmit dispatch
    answer reply respond return
    increase rise grow raise
    decrease fall reduce decline
    fix repair mend resolve
    fast quick quickly rapid rapidly
    slow slowly
    wait pause
    change modify alter
    generate produce
    split divide
    combine join
    fail break
    hide conceal
    detect discover
    agree consent
    speak talk communicate
    explain describe
    manage lead head
    handle process
    important essential crucial vital
    mandatory obligatory compulsory
    previous former
    next following
    error mistake
    full fully
    problem trouble
    company firm
    car vehicle automobile
    flat apartment
    lift elevator
    garbage trash rubbish
    picture photo
    laptop notebook
    website site
    webpage page
    internet web
    salary wage
    almost nearly
    depend rely
    own possess
    forbidden prohibited
    guest visitor
        doctor physician
    town city
    road street
    trip journey
    large big
    bug defect
    directory folder dir
    repository repo
    database db
    config configuration
    environment env
    variable var
    function func
    parameter param
    argument arg
    development dev
    production prod
    application app
    admin administrator
    documentation docs doc
    information info
    kubernetes k8s
    javascript js
    typescript ts
    postgres postgresql pg
    minimum min
    maximum max
    average avg
    temporary temp
    specification spec
    package pkg
    memory ram
    vacation holiday
    email mail
    phone telephone
    child kid
    buy purchase
    colleague coworker
    choose pick select
    want prefer like
    else otherwise
    name call
    release ship
    deploy deployment rollout
    permit allow
    notify inform
    check verify
    help assist
    try attempt
    contain include comprise consist
    exhausted depleted
    whole entire
    same identical
    different distinct
    wrong incorrect
    reject refuse deny
    shut close
    license licence
    favor favour
    color colour
    behavior behaviour
    center centre
    program programme
    tire tyre
    gray grey
    see visible
    newer later
    older earlier
    meter metre
    liter litre
    catalog catalogue
    check cheque
    allergy allergic
    freigabe genehmigung
    löschen entfernen
    beginnen anfangen
    enden aufhören
    brauchen benötigen
    zeigen anzeigen
    schicken senden
    ordner verzeichnis
    datenbank db
"""
