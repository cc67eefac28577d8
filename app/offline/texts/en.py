"""English sentences and prototypes of the offline model. No desk, product or policy is named here."""

from __future__ import annotations

COMMA = ", "
OR = " or "

PHRASES = {
    "greeting": "Hello! How can I help you?",
    "topics": "I can pass you to {targets}.",
    "help": "Of course. Please tell me in a sentence what it is about.",
    "thanks": "You're welcome. Is there anything else?",
    "bye": "Thank you for writing. Goodbye!",
    "yes": "All right. Is there anything else I can do?",
    "bot": "I'm an automated assistant: I find the right colleague and quote what is written down.",
    "no": "All right. Just write if there is anything else.",
    "empty": "I could not read any words in that. What can I help you with?",
    "ask": "Is it about {a} or {b}?",
    "neither": "Then please tell me in other words what you need.",
    "stay": "I'm not sure who can help with that. Could you say it in other words?",
    "slot": "For that I need this from you: {what}",
    "unknown": "I have no information about that.",
    "offer_person": "Shall I pass you to a person?",
    "quote": "“{text}” [source: {source}]",
    "offer_transfer": "You also asked: “{question}” Shall I pass you to {name}?",
    "elsewhere": "That is a question for {name}, and I cannot pass you there from here.",
    "refused": "I cannot pass you to {name} at the moment.",
    "no_person": "I cannot pass you to a person from here.",
    "tool_empty": "That is done.",
    "not_approved": "That was not approved, so it has not been done.",
    "not_decided": "Nobody could decide about that in time, so it has not been done.",
    "reason_subject": "The customer's message is about {name}.",
    "reason_human": "The customer asked for a person.",
    "reason_named": "The customer chose {name}.",
    "fact_mentioned": "Mentioned by the customer: {values}",
}

# What people say around their request. Matched by meaning, so a few phrasings of each are enough.
REMARKS: dict[str, tuple[str, ...]] = {
    "greeting": ("hello", "hi", "hey there", "good morning", "good evening", "dear customer service", "hi team"),
    "mood": (
        "how are you",
        "I hope you are doing well",
        "sorry to bother you",
        "I am a customer of yours",
        "thanks in advance for your help",
        "I look forward to your reply",
        "best regards",
        "kind regards",
        "have a nice day",
    ),
    "bot": ("are you a bot", "are you human", "who am I talking to", "who are you", "is this an automatic answer"),
    "help": (
        "help",
        "I need help",
        "can you help me",
        "I have a question",
        "I have a problem",
        "could you help me with something",
        "please help",
        "I need some assistance",
    ),
    "thanks": (
        "thanks",
        "thank you very much",
        "ok thanks",
        "great, thank you",
        "perfect",
        "that helps",
        "I appreciate it",
    ),
    "bye": (
        "bye",
        "goodbye",
        "see you",
        "that's all",
        "that's all for now",
        "that will be all",
        "no, that is all, thanks",
        "nothing else",
    ),
    "yes": ("yes", "yes please", "yeah", "sure", "ok", "okay", "that's right", "correct", "please do", "sounds good"),
    "no": ("no", "no thanks", "nope", "not now", "no, that's wrong", "don't"),
    "human": (
        "I want to talk to a human",
        "let me speak to a person",
        "connect me to a real person",
        "can I talk to a human agent",
        "transfer me to a representative",
        "I want to speak with customer service staff",
        "get me a manager",
        "is there a real person I can talk to",
        "I don't want to talk to a robot",
        "operator please",
        "can I talk to someone",
        "I want to speak to somebody else",
        "how do I reach a live agent",
    ),
}

FIRST: tuple[str, ...] = ("the first", "first", "the first one", "a")
SECOND: tuple[str, ...] = ("the second", "second", "the second one", "b")
NEITHER: tuple[str, ...] = ("neither", "none", "none of them", "neither of them", "something else", "no")

# Words around a bare slot value ("my order number is ..."); a message of only these is not a new request.
FILLERS = frozenset(
    """
    a an and at been by can do for from go have here hi hello i id in is it its just me mine my no number of ok okay
    on order one please ref reference so sure thank thanks that the there these they think this to was well with yeah
    yes you your email e-mail mail address code it's that's i'm sorry sir madam
    """.split()  # noqa: SIM905 - a list of fifty words is easier to read and to edit as text
)
# A question about how things are, not a request to do something now.
POLICY: tuple[str, ...] = (
    r"\bhow (long|much|many|often|soon|do|does|can|to|would|should)\b",
    r"\bwhat('s| is| are|) (the|your|happens|kind|counts)\b",
    r"\bwhat (is|are|happens|if)\b",
    r"\b(do|does|are|is) (you|your|it|there|the)\b",
    r"\b(can|may|could) (i|we|you tell)\b",
    r"\bwhen (do|does|will|can)\b",
    r"\b(policy|policies|terms|rules|conditions)\b",
    r"\bwhy\b",
)
# A wish for a human in so many words; anything looser is left to the encoder.
_PERSON = (
    r"(human( being| agent)?|(real|actual|live|other|different) (person|agent|human)|person|someone|somebody|agent"
    r"|assistant|representative|operator|manager|supervisor|adviser|advisor|member of staff)"
)
HUMAN: tuple[str, ...] = (
    rf"\b(talk(ing)?|speak(ing)?|chat(ting)?|connect|transfer|pass|put|hand|switch)( me)? (to|with|through to|over to)"
    rf" (an? |some |your |another |the )?{_PERSON}\b",
    rf"\b(contact(ing)?|reach(ing)?|get me( to)?|is there|need|want|prefer) (an? |some |your |another )?{_PERSON}\b"
    r"(?! (is|was|to ))",
    r"\b(someone|somebody) else on the line\b|\bstop talking to (bots?|a bot|robots?)\b",
    r"^\W*(human|agent|operator|representative|live agent|real person)( please)?\W*$",
)
PERSONAL: tuple[str, ...] = (r"\b(my|mine|our)\b",)
WISH: tuple[str, ...] = (
    r"\b(please|pls|go ahead|do it)\b",
    r"\bi('d| would) (like|love)|\bi (want|need|wish)\b|\b(can|could|would|will) you\b|\bwould you like me to\b",
)
