"""The phrases of which `data.synthetic` builds its commands: templates by intent, and fillers.

A command is an imperative, so that it can follow "don't", "remind me to" or "and". The intents
share words on purpose (set, lights, call, ten minutes, remind), and the titles of the songs are
made of the words of the other intents.
"""

from __future__ import annotations

from collections.abc import Mapping

# Imperatives by intent; {slot} is filled from SLOTS.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "set_alarm": (
        "set an alarm for {time}",
        "wake me up at {time}",
        "make sure I am up by {time}",
        "get me out of bed at {time}",
        "set my alarm {day} to {time}",
        "ring at {time} {day}",
    ),
    "set_timer": (
        "set a timer for {duration}",
        "start a {duration} countdown",
        "count down {duration} for the {dish}",
        "time the {dish} for {duration}",
        "let me know when {duration} are over",
        "tell me when the {dish} has had its {duration}",
    ),
    "add_reminder": (
        "remind me to {chore}",
        "remind me to {chore} at {time}",
        "make sure I don't forget to {chore} {day}",
        "remind me {day} about the {errand}",
        "help me remember to {chore}",
        "nudge me at {time} so that I {chore}",
    ),
    "play_music": (
        "play {song}",
        "put on some {genre}",
        "play {genre} in the {room}",
        "start the {genre} list",
        "let me hear {song} by {artist}",
        "queue {song} after this one",
    ),
    "get_weather": (
        "check the weather in {city}",
        "tell me if it will {rain} {day}",
        "look up the forecast for {city} {day}",
        "find out how cold it gets in {city} at {time}",
        "tell me whether I need {gear} {day}",
        "say how warm it is in {city}",
    ),
    "send_message": (
        "text {name} that {news}",
        "send {name} a message saying {news}",
        "let {name} know that {news}",
        "tell {name} to {chore}",
        "write to {name} and ask for the {errand}",
        "message {name} about the {errand}",
    ),
    "make_call": (
        "call {name}",
        "call {name} about the {errand}",
        "ring {name} at home",
        "get {name} on the phone",
        "dial the number of {name}",
        "phone {name} at {time}",
    ),
    "add_to_list": (
        "add {item} to the shopping list",
        "put {item} on my list",
        "note that we need {item}",
        "write {item} down for the store",
        "get {item} on the list {day}",
        "remember {item} for the groceries",
    ),
    "add_event": (
        "set up a meeting with {name} at {time}",
        "put lunch with {name} on my calendar {day}",
        "book {time} {day} for the {errand}",
        "schedule a call with {name} {day}",
        "add the {errand} to my calendar",
        "keep {time} free for {name} {day}",
    ),
    "control_lights": (
        "turn off the lights in the {room}",
        "set the {room} lights to {percent} percent",
        "make it brighter in the {room}",
        "dim the {room} at {time}",
        "turn the {room} lamp on",
        "put the lights out in {duration}",
    ),
}

# Questions by intent: they stand alone.
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "set_alarm": ("can I sleep until {time}", "will you wake me at {time}"),
    "set_timer": ("can you time {duration}", "will you tell me when {duration} have passed"),
    "add_reminder": (
        "can you remind me about the {errand}",
        "did I ask you to remind me to {chore}",
    ),
    "play_music": ("do you have {song}", "what about a little {genre} in here"),
    "get_weather": ("will it {rain} in {city} {day}", "do I need {gear} at {time}"),
    "send_message": ("could {name} hear from me that {news}", "does {name} know that {news}"),
    "make_call": ("is {name} on the phone yet", "can I speak to {name}"),
    "add_to_list": ("is {item} on the list", "do we have {item} at home"),
    "add_event": ("am I free {day} at {time} for {name}", "is the {errand} on my calendar"),
    "control_lights": ("why is it so dark in the {room}", "are the {room} lights on"),
}

SLOTS: Mapping[str, tuple[str, ...]] = {
    "time": (
        "seven", "half past six", "8:30", "six thirty", "noon", "ten to nine", "quarter past five",
        "7 am", "9 pm", "midnight", "five in the morning", "10:45",
    ),
    "day": (
        "today", "tomorrow", "on monday", "on friday", "this weekend", "tonight", "next tuesday",
        "on sunday morning",
    ),
    "duration": (
        "ten minutes", "five minutes", "half an hour", "an hour", "90 seconds", "twenty minutes",
        "two hours", "45 minutes",
    ),
    "dish": ("pasta", "eggs", "rice", "pizza", "tea", "bread", "laundry", "roast"),
    "chore": (
        "call {name}", "buy {item}", "turn off the {room} lights", "water the plants",
        "take out the trash", "play with the dog", "text {name} back", "check the weather",
        "set the table", "add {item} to the order", "wake the kids", "ring the dentist",
    ),
    "errand": (
        "dentist", "meeting", "rent", "car", "concert", "call with {name}", "weather trip",
        "shopping", "light bulbs", "birthday party",
    ),
    "song": (
        "rain on the window", "lights of the city", "call me tomorrow", "ten minutes to midnight",
        "wake up slowly", "message in the dark", "the shopping list", "set the night on fire",
        "ring the bells", "monday weather",
    ),
    "genre": ("jazz", "rock", "piano", "classical", "dance", "country", "soul", "morning music"),
    "artist": ("the alarm", "the timers", "anna stone", "dark forecast", "the callers"),
    "city": ("berlin", "lisbon", "oslo", "chicago", "kyoto", "madrid", "dublin", "the mountains"),
    "rain": ("rain", "snow", "get colder", "stay dry", "storm", "clear up"),
    "gear": ("an umbrella", "a coat", "sunglasses", "boots", "a scarf"),
    "name": (
        "mom", "dad", "anna", "ben", "the office", "dr lee", "maria", "my sister", "tom", "june",
    ),
    "news": (
        "I am late", "the meeting moved to {time}", "it will rain {day}", "we need {item}",
        "I set an alarm", "the lights are out", "I will call at {time}", "dinner is in {duration}",
    ),
    "item": ("milk", "eggs", "bread", "batteries", "light bulbs", "rice", "tea", "an alarm clock"),
    "room": ("kitchen", "bedroom", "hall", "garage", "living room", "bathroom"),
    "percent": ("ten", "twenty", "fifty", "80", "five", "a hundred"),
}  # fmt: skip

# A second command that does not count: {yes} is the one to obey. Each pair of forms holds the same
# words, so only their order tells which of the two commands is meant.
CONTRASTS: tuple[tuple[str, str], ...] = (
    ("{yes} and don't {no}", "don't {no} and {yes}"),
    ("{yes} but do not {no}", "do not {no} but {yes}"),
    ("{yes} , never mind what I said , don't {no}", "don't {no} , never mind what I said , {yes}"),
)

# Words around a command that say nothing about it, though they sound like other commands.
ASIDES: tuple[str, ...] = (
    "I have to call {name} later",
    "the weather is awful",
    "my alarm did not ring",
    "the lights are too bright in here",
    "I love this song",
    "the meeting took {duration}",
    "we are out of {item}",
    "{name} is here until {time}",
    "it is {time} already",
    "I got a message from {name}",
)

OPENINGS: tuple[str, ...] = ("please", "hey", "ok", "could you", "I want you to", "now", "listen")
CLOSINGS: tuple[str, ...] = ("please", "thanks", "right now", "for me", "if you can", "will you")
