"""Codes are read digit by digit, numbered names as names, and identifiers as they are written."""

from __future__ import annotations

import pytest
from english_readings import readings, said

DIGITS = """
zip 90210 => zip nine zero two one zero
ZIP code: 90210-1234 => zip code : nine zero two one zero , one two three four
Beverly Hills, CA 90210 => beverly hills , c. a. nine zero two one zero
Washington, DC 20500 => washington , d. c. two zero five zero zero
dial 911 or 999 => dial nine one one or nine nine nine
dial 911, 999, or 112 => dial nine one one , nine nine nine , or one one two
Call 1-800-555-0199 or 911 => call one , eight zero zero , five five five , zero one nine nine or nine one one
Her number is 07700 900123 => her number is zero seven seven zero zero , nine zero zero one two three
Tel. 020 7946 0018 => telephone zero two zero , seven nine four six , zero zero one eight
call 101 => call one zero one
Call 911 now => call nine one one now
In an emergency call 112. => in an emergency call one one two
a 911 call => a nine one one call
call 5551234 => call five five five one two three four
OTP is 839201 => o. t. p. is eight three nine two zero one
Your OTP: 839201 => your o. t. p. : eight three nine two zero one
PIN 4321 => pin four three two one
PIN: 1984 => pin : one nine eight four
Your PIN is 2020. => your pin is two zero two zero
PIN number 1999 => pin number one nine nine nine
password 12345 => password one two three four five
passcode is 1234 => passcode is one two three four
verification code is 482913 => verification code is four eight two nine one three
Use code 2468 to log in => use code two four six eight to log in
Your code is 839-201 => your code is eight three nine , two zero one
code 839 201 => code eight three nine , two zero one
door code 1984 => door code one nine eight four
area code 212 => area code two one two
CVV 123 => c. v. v. one two three
account 4711 => account four seven one one
account number 12345678 => account number one two three four five six seven eight
order 4711 is late => order four seven one one is late
order #4711 => order number four seven one one
ticket 1042 was closed => ticket one zero four two was closed
flight 1549 => flight one five four nine
flight LH 454 => flight l. h. four fifty four
flight BA2490 => flight b. a. two four nine zero
Flight UA 1549 to Rome => flight u. a. one five four nine to rome
confirmation code X7K9P2 => confirmation code x. seven k. nine p. two
order AB12345 => order a. b. one two three four five
tracking number 940011 => tracking number nine four zero zero one one
serial number 88213 => serial number eight eight two one three
ID 4711 => i. d. four seven one one
employee ID: 10023 => employee i. d. : one zero zero two three
extension 4021 => extension four zero two one
fax 12345 => fax one two three four five
text HELP to 741741 => text help to seven four one seven four one
card ending in 4242 => card ending in four two four two
the last four digits 4242 => the last four digits four two four two
4242 4242 4242 4242 => four two four two , four two four two , four two four two , four two four two
123-45-6789 => one two three , four five , six seven eight nine
IBAN DE89 3704 0044 0532 0130 00 => iban d. e. eight nine , three seven zero four , zero zero four four , \
zero five three two , zero one three zero , zero zero
SW1A 1AA => s. w. one a. , one a. a.
M1 1AE => m. one , one a. e.
Enter 4321 to unlock => enter four three two one to unlock
"""
NO_DIGITS = """
call 100 customers => call one hundred customers
call 5 people => call five people
order 2500 bricks => order two thousand five hundred bricks
order 50kg of rice => order fifty kilograms of rice
order 10x more => order ten times more
account 3,000 => account three thousand
999 calls were made => nine hundred ninety nine calls were made
error code 404 => error code four oh four
error code 1603 => error code sixteen oh three
source code 2500 lines => source code two thousand five hundred lines
room 404 => room four oh four
room 1204 => room twelve oh four
flight 370 => flight three seventy
zip 200 files => zip two hundred files
pin 7 => pin seven
pin 12 of the chip => pin twelve of the chip
in 1984 => in nineteen eighty four
the year 2020 => the year twenty twenty
PIN 3.5 mm => pin three point five millimeters
the code is 40 lines => the code is forty lines
code 12,000 => code twelve thousand
Chapter 11 => chapter eleven
Highway 101 => highway one oh one
12345 => twelve thousand three hundred forty five
a phone is 2000 dollars => a phone is two thousand dollars
Enter 500 => enter five hundred
In 2019, 4000 people => in twenty nineteen , four thousand people
the year ending 2019 => the year ending twenty nineteen
HTTP 404 => h. t. t. p. four hundred four
Porsche 911 => porsche nine eleven
"""
NAMES = """
Bus 42A => bus forty two a.
bus 42A leaves => bus forty two a. leaves
bus 42A or 42B, or the 7B => bus forty two a. or forty two b. , or the seven b.
a line 5V rail => a line five volts rail
Flat 3B => flat three b.
Flat 3-B => flat three b.
flat 3d => flat three d.
Gate 12C => gate twelve c.
Gates 12A and 12B => gates twelve a. and twelve b.
Room 101A => room one oh one a.
Rooms 12A-12C => rooms twelve a. to twelve c.
Apartment 4D => apartment four d.
Apt. 4D => apartment four d.
Size 10W => size ten w.
Size 36DD => size thirty six d. d.
Model 5S => model five s.
Model 3310 => model thirty three ten
Line 7A => line seven a.
Seat 14A => seat fourteen a.
Seats 14A, 14B => seats fourteen a. , fourteen b.
Route 66A => route sixty six a.
Highway 1A => highway one a.
Unit 2B => unit two b.
Platform 9A => platform nine a.
Exit 12B => exit twelve b.
Bay 5V => bay five v.
Terminal 2E => terminal two e.
Block 4N => block four n.
Suite 200B => suite two hundred b.
No. 42A => number forty two a.
221B Baker Street => two twenty one b. baker street
42A Main St. => forty two a. main street
Form 1040A => form ten forty a.
Section 8A => section eight a.
Class 3A => class three a.
Interstate 35W => interstate thirty five w.
Locker 12L => locker twelve l.
Runway 27L => runway twenty seven l.
iPhone 5s => i. phone five s.
42A => forty two amps
a fuse of 42A => a fuse of forty two amps
10W bulb => ten watts bulb
3B => three bytes
a room 5m wide => a room five meters wide
bus 12m long => bus twelve meters long
line 10m long => line ten meters long
Model 5GB => model five gigabytes
the bus at 10AM => the bus at ten a. m.
the bus 10AM => the bus ten a. m.
12V battery => twelve volts battery
size 5mm => size five millimeters
bus 42 => bus forty two
bus 142 => bus one forty two
"""
MACHINES = """
00:1A:2B => zero zero , one a. , two b.
00:1A:2B:3C:4D:5E => zero zero , one a. , two b. , three c. , four d. , five e.
00-1A-2B-3C-4D-5E => zero zero , one a. , two b. , three c. , four d. , five e.
aa:bb:cc:dd:ee:01 => a. a. , b. b. , c. c. , d. d. , e. e. , zero one
001a.2b3c.4d5e => zero zero one a. , two b. three c. , four d. five e.
00:11:22:33:44:55 => zero zero , one one , two two , three three , four four , five five
2001:db8::1 => two zero zero one colon d. b. eight colon colon one
fe80::1%eth0 => f. e. eight zero colon colon one percent eth zero
::1 => colon colon one
2001:db8::/32 => two zero zero one colon d. b. eight colon colon slash thirty two
550e8400-e29b-41d4-a716-446655440000 => five five zero e. eight four zero zero , e. two nine b. , four one \
d. four , a. seven one six , four four six six five five four four zero zero zero zero
d41d8cd98f00b204 => d. four one d. eight c. d. nine eight f. zero zero b. two zero four
a1b2c3d => a. one b. two c. three d.
commit 12e4567 => commit one two e. four five six seven
commit 61639d2 fixes it => commit six one six three nine d. two fixes it
0x1F => zero x. one f.
0xdeadbeef => zero x. d. e. a. d. b. e. e. f.
0b1010 => zero b. one zero one zero
0o755 => zero o. seven five five
U+00E9 => u. plus zero zero e. nine
#ff8800 => hash f. f. eight eight zero zero
#1a2b3c => hash one a. two b. three c.
12:30:15 => twelve thirty and fifteen seconds
12:30 => twelve thirty
16:9 => sixteen to nine
1:2:3 => one to two : three
std::vector => std , vector
1e10 => one times ten to the tenth
#5 => number five
#news => hashtag news
#face => hashtag face
decade2000 => decade two thousand
MP3 => m. p. three
COVID-19 => covid nineteen
192.168.0.1 => one ninety two dot one sixty eight dot zero dot one
"""
SIGNED = """
C# => c. sharp
C# 12 => c. sharp twelve
C#, Java => c. sharp , java
F# => f. sharp
in F# minor => in f. sharp minor
F#m => f. sharp m.
A# and G# => a. sharp and g. sharp
C♯ => c. sharp
B♭ => b. flat
C++ => c. plus plus
C++17 => c. plus plus seventeen
C/C++ => c. slash c. plus plus
g++ => g. plus plus
Notepad++ => notepad plus plus
i++ => i. plus plus
.NET => dot net
the .NET runtime => the dot net runtime
ASP.NET => a. s. p. dot net
VB.NET => v. b. dot net
Node.js => node j. s.
Vue.js and D3.js => vue j. s. and d. three j. s.
index.js => index dot j. s.
a .com address => a dot com address
all .txt files => all dot t. x. t. files
*.pdf => dot pdf
setup.exe => setup dot exe
grade A+ => grade a. plus
an A+ grade => an a. plus grade
an A+. => an a. plus
B+ => b. plus
Disney+ => disney plus
A+B => a plus b.
a + b => a plus b.
item #5 => item number five
#C => hashtag c.
apt C #5 => apt c. number five
The end. Net gain => the end . net gain
well...net => well , net
.5 => point five
Objective-C => objective c.
"""


@pytest.mark.parametrize(("text", "expected"), readings(DIGITS))
def test_codes_are_read_digit_by_digit(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("text", "expected"), readings(NO_DIGITS))
def test_quantities_beside_the_words_of_codes(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("text", "expected"), readings(NAMES))
def test_numbers_with_a_letter(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("text", "expected"), readings(MACHINES))
def test_identifiers(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("text", "expected"), readings(SIGNED))
def test_names_with_signs(text: str, expected: str) -> None:
    assert said(text) == expected
