"""Numbers, units, months and days as they are written in English and German."""

from __future__ import annotations

#: Numbers as words.
NUMBERS = """
    one 1 two 2 three 3 four 4 five 5 six 6 seven 7 eight 8 nine 9 ten 10 eleven 11 twelve
    12 thirteen 13 fourteen 14 fifteen 15 sixteen 16 seventeen 17 eighteen 18 nineteen 19
    twenty 20 thirty 30 forty 40 fifty 50 sixty 60 seventy 70 eighty 80 ninety 90 hundred
    100 thousand 1000 dozen 12 twice 2 thrice 3 zwei 2 drei 3 vier 4 fünf 5 sechs 6 sieben 7
    acht 8 neun 9 zehn 10 elf 11 zwölf 12 zwanzig 20 dreißig 30 vierzig 40 fünfzig 50
    hundert 100 tausend 1000
"""

#: unit, dimension, factor. Months and years are no fixed number of seconds.
UNITS = """
    ms time 0.001 millisecond time 0.001 milliseconds time 0.001 s time 1 sec time 1 secs
    time 1 second time 1 seconds time 1 sekunde time 1 sekunden time 1 min time 60 mins time
    60 minute time 60 minutes time 60 minuten time 60 h time 3600 hr time 3600 hrs time 3600
    hour time 3600 hours time 3600 stunde time 3600 stunden time 3600 day time 86400 days
    time 86400 tag time 86400 tage time 86400 tagen time 86400 week time 604800 weeks time
    604800 woche time 604800 wochen time 604800 month month 1 months month 1 monat month 1
    monate month 1 monaten month 1 year month 12 years month 12 jahr month 12 jahre month 12
    jahren month 12 b bytes 1 byte bytes 1 bytes bytes 1 kb bytes 1e3 kilobyte bytes 1e3
    kilobytes bytes 1e3 mb bytes 1e6 megabyte bytes 1e6 megabytes bytes 1e6 gb bytes 1e9
    gigabyte bytes 1e9 gigabytes bytes 1e9 tb bytes 1e12 terabyte bytes 1e12 terabytes bytes
    1e12 kib bytes 1024 mib bytes 1048576 gib bytes 1073741824 eur eur 1 euro eur 1 euros
    eur 1 € eur 1 usd usd 1 dollar usd 1 dollars usd 1 $ usd 1 gbp gbp 1 £ gbp 1 percent
    percent 1 prozent percent 1 % percent 1 mm length 0.001 cm length 0.01 m length 1 meter
    length 1 meters length 1 metre length 1 metres length 1 km length 1000 mg mass 0.001 g
    mass 1 gram mass 1 grams mass 1 kg mass 1000 kilogram mass 1000 kilograms mass 1000 kilo
    mass 1000 kilos mass 1000 kilogramm mass 1000 gramm mass 1 ton mass 1e6 tons mass 1e6
    tonne mass 1e6 tonnes mass 1e6 kilometer length 1000 kilometers length 1000 kilometre
    length 1000 kilometres length 1000 centimeter length 0.01 centimeters length 0.01 mile
    length 1609.344 miles length 1609.344 milliliter volume 0.001 milliliters volume 0.001
    millilitre volume 0.001 ml volume 0.001 l volume 1 liter volume 1 liters volume 1 litre
    volume 1 litres volume 1 px px 1 pixel px 1 pixels px 1 °c celsius 1 °f fahrenheit 1
"""

MONTHS = """
    january 1 february 2 march 3 april 4 may 5 june 6 july 7 august 8 september 9 october 10
    november 11 december 12 jan 1 feb 2 mar 3 apr 4 jun 6 jul 7 aug 8 sep 9 sept 9 oct 10
    nov 11 dec 12 januar 1 februar 2 märz 3 mai 5 juni 6 juli 7 oktober 10 dezember 12
"""

WEEKDAYS = """
    monday 1 tuesday 2 wednesday 3 thursday 4 friday 5 saturday 6 sunday 7 montag 1 dienstag
    2 mittwoch 3 donnerstag 4 freitag 5 samstag 6 sonntag 7
"""

#: How often, said in one word.
RATES = """
    hourly hour daily day nightly night weekly week monthly month yearly year annually year
    quarterly quarter täglich tag wöchentlich woche monatlich monat jährlich jahr
"""
