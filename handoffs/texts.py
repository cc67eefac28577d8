"""The sentences that Frontdesk itself says to a customer, by language. What agents and queues say is in their files."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, Mapping[str, str]] = {
    "en": {
        "to_queue": "I'm passing you to a person: {name}. They see what you wrote, and you can go on writing here.",
        "to_person": "You're now talking to {name}, a person.",
        "failed_to_queue": "Sorry, something went wrong on our side. A person ({name}) will take over from here.",
        "failed_to_agent": "Sorry, something went wrong on our side. {name} will take over from here.",
        "failed_stay": "Sorry, something went wrong on our side. Please send your message once more.",
        "loop_to_queue": "I don't want to send you round in circles, so I'm passing you to a person: {name}.",
        "approval": "A person has to agree to this first. You get the answer here as soon as they have decided.",
        "confirm": "This needs your confirmation before it is done.",
        "approval_line": "I'm still waiting for a decision. Your message is kept and answered right after it.",
        "guarded": "Sorry, I can't go on with that message here. Please put it another way.",
        "guarded_to_queue": "I can't go on with that message here. A person ({name}) will take over.",
        "guarded_to_agent": "I can't go on with that message here. {name} will take over.",
        "a_person": "a person",
        "person_gone": "The person you were talking to had to leave. {name} will take over from here.",
        "missing": "I could not get an answer from {names} this time.",
        "closed": "Nobody is there right now; your message is kept and answered as soon as somebody is back.",
    },
    "zh": {
        "to_queue": "我正在为您转接人工客服：{name}。他们能看到您之前的消息，您可以继续在这里留言。",
        "to_person": "现在由人工客服 {name} 为您服务。",
        "failed_to_queue": "抱歉，我们这边出了点问题。接下来由人工客服（{name}）为您处理。",
        "failed_to_agent": "抱歉，我们这边出了点问题。接下来由{name}为您服务。",
        "failed_stay": "抱歉，我们这边出了点问题，请再发送一次您的消息。",
        "loop_to_queue": "为了不让您来回转接，我直接为您转人工客服：{name}。",
        "approval": "这项操作需要人工审核，审核完成后会立即在这里回复您。",
        "confirm": "执行这项操作之前需要您确认。",
        "approval_line": "仍在等待审核结果。您的消息已保存，审核完成后会马上回复。",
        "guarded": "抱歉，这条消息我无法在这里处理，请换一种方式说明。",
        "guarded_to_queue": "这条消息我无法在这里处理，接下来由人工客服（{name}）为您处理。",
        "guarded_to_agent": "这条消息我无法在这里处理，接下来由{name}为您服务。",
        "a_person": "工作人员",
        "person_gone": "刚才为您服务的工作人员已离开，接下来由{name}为您服务。",
        "missing": "这次没有得到{names}的答复。",
        "closed": "现在是非工作时间；您的消息已保存，工作人员上线后会尽快回复。",
    },
}


def sentence(key: str, language: str, **names: str) -> str:
    """The sentence `key` in `language` (English when there is none)."""
    table = SENTENCES.get(language) or SENTENCES.get(language.partition("-")[0]) or SENTENCES["en"]
    return table[key].format(**names)
