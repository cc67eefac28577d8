"""Chinese sentences and prototypes of the offline model. No desk, product or policy is named here."""

from __future__ import annotations

COMMA = "、"
OR = "或"

PHRASES = {
    "greeting": "您好！请问有什么可以帮您？",
    "topics": "我可以为您转接：{targets}。",
    "help": "好的，请用一句话告诉我是什么问题。",
    "thanks": "不客气。还有其他问题吗？",
    "bye": "感谢您的来信，再见！",
    "yes": "好的，请问您想了解什么？",
    "no": "好的，如有其他问题请随时留言。",
    "empty": "我没有看到文字内容。请问有什么可以帮您？",
    "ask": "请问这是关于{a}还是{b}的问题？",
    "neither": "那请您换一种说法告诉我需要什么。",
    "stay": "我不确定这个问题该由谁处理，您可以换一种说法吗？",
    "slot": "办理此事需要您提供：{what}",
    "unknown": "我没有这方面的资料。",
    "offer_person": "需要为您转人工客服吗？",
    "quote": "“{text}” [来源：{source}]",
    "offer_transfer": "您还问了：“{question}” 需要为您转接到{name}吗？",
    "elsewhere": "这个问题属于{name}，我在这里无法为您转接。",
    "refused": "现在无法为您转接到{name}。",
    "no_person": "我在这里无法为您转人工。",
    "tool_empty": "已经办好了。",
    "reason_subject": "客户的问题属于{name}。",
    "reason_human": "客户要求人工服务。",
    "reason_named": "客户选择了{name}。",
    "fact_mentioned": "客户提到：{values}",
}

REMARKS: dict[str, tuple[str, ...]] = {
    "greeting": ("你好", "您好", "早上好", "嗨", "在吗", "客服你好"),
    "mood": ("打扰一下", "祝您生活愉快", "期待您的回复", "我是你们的客户", "你是机器人吗", "你是谁"),
    "help": ("我需要帮助", "我有一个问题", "可以帮我一下吗", "我遇到了问题", "想咨询一下", "请帮帮我"),
    "thanks": ("谢谢", "非常感谢", "好的谢谢", "太好了", "明白了，谢谢"),
    "bye": ("再见", "拜拜", "没有其他问题了", "就这样吧"),
    "yes": ("是", "是的", "好", "好的", "可以", "对", "嗯", "行", "没问题", "要的"),
    "no": ("不", "不用", "不要", "不是", "不用了", "不对", "算了"),
    "human": (
        "转人工",
        "我要人工客服",
        "我想和真人说话",
        "请帮我转接人工服务",
        "找个人跟我谈",
        "我不想和机器人聊",
        "叫你们经理来",
        "有没有真人客服",
    ),
}

FIRST: tuple[str, ...] = ("第一个", "前者", "第一", "前面的")
SECOND: tuple[str, ...] = ("第二个", "后者", "第二", "后面的")
NEITHER: tuple[str, ...] = ("都不是", "两个都不是", "其他", "不是", "都不对")

FILLERS = frozenset(
    """
    我 的 是 号 号码 订单 订单号 邮箱 编号 在 这 这个 这里 就是 好的 好 谢谢 请 您 你 查 一下 给 嗯 哦 了 啊 呢
    """.split()  # noqa: SIM905 - easier to read and to edit as text
)
POLICY: tuple[str, ...] = (
    r"怎么|如何|怎样",
    r"多久|多长时间|多少|几天|什么时候|何时",
    r"是否|能不能|可不可以|可以.*吗|能.*吗|有没有",
    r"什么(是|情况|条件|规定|政策)",
    r"政策|规则|规定|条件",
    r"为什么|为何",
)
HUMAN: tuple[str, ...] = (
    r"转\s*(接)?\s*(到)?\s*人工|人工(客服|服务|坐席)|^\W*人工\W*$",
    r"(找|要|和|跟|换|叫|让)[^，。？！]{0,6}(真人|经理|主管|活人|人工)",
    r"真人(客服|服务)",
)
PERSONAL: tuple[str, ...] = (r"我的|我们的",)
