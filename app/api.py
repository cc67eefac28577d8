"""The REST door: tokens for widgets, conversations for the desk and for other programs, health."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from app import desk_view, language, origins
from app.api_errors import Refused, responses
from app.api_models import (
    ConversationList,
    ConversationView,
    DeskInfo,
    Health,
    MessageAnswer,
    MessageRequest,
    PresenceAnswer,
    PresenceRequest,
    Readiness,
    ReleaseAnswer,
    ReleaseRequest,
    RosterView,
    SessionAnswer,
    SessionRequest,
    TakeAnswer,
    TakeRequest,
)
from app.desk import Desk
from app.identity import IdentityError, Session, new_id, same_secret
from handoffs.people import Person, message_id
from sessions.errors import StoreError
from sessions.model import Token

SUGGESTIONS: Final = 4  # examples that an empty widget offers
PREFLIGHT_S: Final = 600

bearer = HTTPBearer(auto_error=False, description="The desk's API key (`frontdesk key` prints it).")
header_key = APIKeyHeader(name="X-API-Key", auto_error=False, description="The same key in a header of its own.")


def the_desk(request: Request) -> Desk:
    """The desk of this process."""
    desk: Desk = request.app.state.desk
    return desk


TheDesk = Annotated[Desk, Depends(the_desk)]


def need_key(
    desk: TheDesk,
    authorization: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    key: Annotated[str | None, Depends(header_key)],
) -> None:
    """Refuse (401) whoever does not hold the API key."""
    given = authorization.credentials if authorization else key
    if not given or not same_secret(given, desk.api_key):
        raise Refused(401, "unauthorized", "send the desk's API key as `Authorization: Bearer KEY` or `X-API-Key: KEY`")


# --- widgets --------------------------------------------------------------------------------------------------------

widget = APIRouter(tags=["widget"])


def _cross_origin(request: Request, desk: Desk) -> dict[str, str]:
    """CORS headers for a page that may use this desk; Refused (403) for any other."""
    origin = request.headers.get("origin")
    host, scheme = request.headers.get("host"), request.url.scheme
    if not origins.allowed(origin, host, scheme, desk.settings.allowed_origins):
        raise Refused(403, "origin_not_allowed", f"pages of {origin or 'no origin'} may not use this desk")
    return {"Access-Control-Allow-Origin": origin or "", "Vary": "Origin"}


@widget.options("/widget/session", include_in_schema=False)
async def preflight(request: Request, desk: TheDesk) -> Response:
    """What a browser asks before it posts from another site."""
    headers = _cross_origin(request, desk) | {
        "Access-Control-Allow-Methods": "POST",
        "Access-Control-Allow-Headers": "content-type",
        "Access-Control-Max-Age": str(PREFLIGHT_S),
    }
    return Response(status_code=204, headers=headers)


@widget.post("/widget/session", responses=responses(401, 403, 422, 429))
async def open_session(body: SessionRequest, request: Request, response: Response, desk: TheDesk) -> SessionAnswer:
    """Tokens for a visitor of a web page: new ones, or with `refresh` for the same visitor and conversation."""
    response.headers.update(_cross_origin(request, desk) | {"Cache-Control": "no-store"})
    wait_ms = desk.sessions.take(request.client.host if request.client else "")
    if wait_ms:
        raise Refused(429, "rate_limited", "too many sessions from this address", retry_after_s=1 + wait_ms // 1000)
    if not same_secret(body.site_key, desk.settings.site_key):
        raise Refused(403, "unknown_site", "this site key is not known here", field="site_key")
    session, fresh = _session(body, desk)
    return SessionAnswer(
        token=session.token,
        refresh=session.refresh,
        expires_in=session.expires_in,
        conversation=session.conversation_id,
        visitor=session.visitor_id,
        fresh=fresh,
        desk=_desk_info(desk, body.lang),
    )


def _session(body: SessionRequest, desk: Desk) -> tuple[Session, bool]:
    if body.refresh is None:
        return desk.identity.start(body.site_key), True
    try:
        return desk.identity.renew(body.refresh, body.site_key, new_conversation=body.new), body.new
    except IdentityError as error:
        raise Refused(401, "refresh_refused", str(error), field="refresh") from None


def _desk_info(desk: Desk, wish: str | None) -> DeskInfo:
    roster = desk.roster
    chosen = language.offered(wish, roster.desk.languages)
    chinese = chosen.partition("-")[0] == "zh"
    fitting = [
        next((text for text in agent.examples if bool(language.HAN.search(text)) is chinese), None)
        for agent in roster.agents.values()
        if agent.id != roster.desk.start
    ]
    return DeskInfo(
        name=roster.text(roster.desk.name, chosen),
        language=chosen,
        offline_model=desk.offline,
        suggestions=[text for text in fitting if text][:SUGGESTIONS],
    )


# --- conversations --------------------------------------------------------------------------------------------------

v1 = APIRouter(prefix="/v1", tags=["desk"], dependencies=[Depends(need_key)], responses=responses(401, 503))


@v1.get("/roster")
async def roster(desk: TheDesk) -> RosterView:
    """Who works here: the agents, the human queues, the model."""
    return desk_view.roster_view(desk)


@v1.get("/conversations")
async def conversations(desk: TheDesk, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> ConversationList:
    """The conversations that changed last, newest first, and behind them every other one that is with people."""
    return ConversationList(conversations=await desk_view.summaries(desk, limit))


@v1.get("/conversations/{conversation_id}", responses=responses(404))
async def conversation(conversation_id: str, desk: TheDesk, after: Annotated[int, Query(ge=0)] = 0) -> ConversationView:
    """One conversation: owner, transcript, events after `after`, values that are not sensitive."""
    return await desk_view.conversation_view(desk, conversation_id, after)


@v1.post("/conversations/{conversation_id}/take", responses=responses(404, 409, 422))
async def take(conversation_id: str, body: TakeRequest, desk: TheDesk) -> TakeAnswer:
    """A person takes the conversation, now. The token in the answer is needed to write and to hand back."""
    taken = await desk.router.take(
        conversation_id,
        person=Person(body.person.id, body.person.name),
        force=body.force,
        expected_epoch=body.expected_epoch,
    )
    return TakeAnswer(token=str(taken.token), previous=desk_view.owner_view(taken.previous, desk.roster), seq=taken.seq)


@v1.post("/conversations/{conversation_id}/presence", responses=responses(404, 409, 422))
async def stay(conversation_id: str, body: PresenceRequest, desk: TheDesk) -> PresenceAnswer:
    """The person is still there. Say so once a minute: after three minutes of silence a queue gets the conversation."""
    return PresenceAnswer(until=await desk.router.stay(conversation_id, _token(body.token)))


@v1.post("/conversations/{conversation_id}/messages", responses=responses(404, 409, 422))
async def write(conversation_id: str, body: MessageRequest, desk: TheDesk) -> MessageAnswer:
    """The person who holds the conversation writes to the customer."""
    person = Person(body.person.id, body.person.name)
    own_id = f"{person.id}:{body.message_id or new_id('r')}"
    done = await desk.router.say(conversation_id, _token(body.token), person, body.text, own_id)
    mid = message_id(conversation_id, f"say:{own_id}")  # the id that the router gave the event
    return MessageAnswer(message_id=mid, seq=done.seq, duplicate=done.duplicate)


@v1.post("/conversations/{conversation_id}/release", responses=responses(404, 409, 422))
async def release(conversation_id: str, body: ReleaseRequest, desk: TheDesk) -> ReleaseAnswer:
    """The person hands back to an agent, with a note that the agent and the log get."""
    person = Person(body.person.id, body.person.name)
    done = await desk.router.hand_back(conversation_id, _token(body.token), person, body.to, body.note or "")
    now = await desk.store.get(conversation_id)
    return ReleaseAnswer(owner=desk_view.owner_view(now.owner, desk.roster), seq=done.seq)


def _token(text: str) -> Token:
    try:
        return Token.parse(text)
    except ValueError as error:
        raise Refused(422, "invalid_request", str(error), field="token") from None


# --- health ---------------------------------------------------------------------------------------------------------

health = APIRouter(tags=["health"])


@health.get("/healthz")
async def healthz() -> Health:
    """This process runs."""
    return Health()


@health.get("/readyz", responses={503: {"model": Readiness, "description": "not ready"}})
async def readyz(response: Response, desk: TheDesk) -> Readiness:
    """This process can take conversations: the store answers and is heard, agents are loaded."""
    try:
        await desk.store.ping()
        store = "ok"
    except StoreError as error:
        store = str(error)
    ready = store == "ok" and desk.live.healthy and bool(desk.roster.agents)
    response.status_code = 200 if ready else 503
    return Readiness(
        ready=ready,
        store=store,
        live=desk.live.healthy,
        agents=len(desk.roster.agents),
        roster=desk.roster.version,
        model=desk.model_description,
        alarms=dict(desk.router.alarms.counts),
    )
