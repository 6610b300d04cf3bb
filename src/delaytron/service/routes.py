"""All routes of the service, in one table: the document that describes them is made of it."""

from typing import Any, NamedTuple

from delaytron.service import messages
from delaytron.service.keys import Scope

ADMIN: Scope = "admin"  # whose keys may call a route
CLIENT: Scope = "client"


class RouteInfo(NamedTuple):
    """A route: its handler, who may call it, and the messages that it takes and returns, by status."""

    method: str
    path: str
    handler: str
    summary: str
    scope: Scope | None = CLIENT
    body: Any = None
    replies: dict[int, Any] = {}
    refusals: tuple[int, ...] = ()
    repeatable: bool = False


MODEL = "/v1/models/{name}"
ROUTES = (
    RouteInfo(
        "POST",
        "/v1/models",
        "create_model",
        "Make a model; the same one again is found",
        ADMIN,
        messages.NewModel,
        {201: messages.ModelReply, 200: messages.ModelReply},
        (409, 429),
    ),
    RouteInfo("GET", "/v1/models", "list_models", "All models", replies={200: messages.ModelList}),
    RouteInfo("GET", MODEL, "show_model", "A model", replies={200: messages.ModelReply}, refusals=(404,)),
    RouteInfo(
        "POST",
        f"{MODEL}/decisions",
        "decide",
        "Decide now, once or for a batch",
        CLIENT,
        messages.DecisionBody,
        {200: (messages.DecisionReply, messages.DecisionReplies)},
        (404, 409, 429),
        repeatable=True,
    ),
    RouteInfo(
        "GET",
        f"{MODEL}/decisions",
        "recent",
        "The last decisions",
        replies={200: messages.RecentDecisions},
        refusals=(404,),
    ),
    RouteInfo(
        "GET",
        f"{MODEL}/decisions/{{id:path}}",
        "show_decision",
        "A decision, and what became of it",
        replies={200: messages.DecisionState},
        refusals=(404,),
    ),
    RouteInfo(
        "DELETE",
        f"{MODEL}/decisions/{{id:path}}",
        "cancel",
        "Want no answer to a decision any more",
        replies={200: messages.FeedbackReply},
        refusals=(404, 409),
    ),
    RouteInfo(
        "POST",
        f"{MODEL}/feedback",
        "feedback",
        "Give the answer to a decision, or to several",
        CLIENT,
        messages.FeedbackBody,
        {200: (messages.FeedbackReply, messages.FeedbackReplies)},
        (403, 404, 409, 410, 429),
    ),
    RouteInfo(
        "GET",
        f"{MODEL}/explanations/{{id:path}}",
        "explain",
        "Why a class looks best for the features of a decision",
        replies={200: messages.ExplanationReply},
        refusals=(404, 410),
    ),
    RouteInfo(
        "POST",
        f"{MODEL}/classes",
        "add_class",
        "Add a class, or let a retired one come back",
        ADMIN,
        messages.NewClass,
        {200: messages.ModelReply},
        (404,),
    ),
    RouteInfo(
        "DELETE",
        f"{MODEL}/classes/{{label:path}}",
        "retire_class",
        "Let a class not be chosen any more",
        ADMIN,
        replies={200: messages.ModelReply},
        refusals=(404,),
    ),
    RouteInfo(
        "GET", f"{MODEL}/stats", "stats", "Counts and rates", replies={200: messages.StatsReply}, refusals=(404,)
    ),
    RouteInfo(
        "GET", f"{MODEL}/weights", "weights", "The weights", replies={200: messages.WeightsReply}, refusals=(404,)
    ),
    RouteInfo(
        "GET",
        f"{MODEL}/digest",
        "digest",
        "A hash of all that the model knows",
        replies={200: messages.DigestReply},
        refusals=(404,),
    ),
    RouteInfo("GET", "/healthz", "healthz", "Whether the service is there", None, replies={200: messages.Health}),
    RouteInfo("GET", "/readyz", "readyz", "Whether it can decide", None, replies={200: messages.Health}),
    RouteInfo("GET", "/metrics", "metrics", "Counts for Prometheus", CLIENT, replies={200: str}),
)
