"""`GET /v1/runs` and `GET /v1/runs/{id}`: what agents did in each run, call by call."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from app import runs_view
from app.api import TheDesk, need_key
from app.api_errors import responses
from app.runs_view import RunList, RunView

router = APIRouter(prefix="/v1", tags=["desk"], dependencies=[Depends(need_key)], responses=responses(401, 503))


@router.get("/runs", responses=responses(404, 422))
async def runs(
    desk: TheDesk,
    conversation: Annotated[str | None, Query(max_length=128, description="only the runs of this one")] = None,
    after: Annotated[str | None, Query(max_length=160, description="`next` of the answer before")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> RunList:
    """Runs, newest first: who had the conversation before and after, what was called, what it took, what failed."""
    return await runs_view.run_list(desk, conversation, after, limit)


@router.get("/runs/{run_id}", responses=responses(404))
async def run(run_id: str, desk: TheDesk) -> RunView:
    """One run whole: every call of a model and of a tool, in the parts that its commits kept. Nothing sensitive."""
    return await runs_view.run_view(desk, run_id)
