"""Flower's SecAgg+ in an environment of its own; started by `secagg`, imports nothing of ours.

``python secagg_guest.py VECTORS.npy SHARE`` has Flower's workflow and its clients' mod in one
process. Every message between them is serialised and read back as Flower does it for the wire.
SHARE is the part of the clients that must stay. It answers every line with a number:
``round STAGE N`` runs a round in which N clients are gone from that stage on and says 1 if a sum
came out; ``seconds``, ``client`` (its median), ``up``, ``down`` (bytes) and ``error`` (the largest,
as a part of the largest summand) are of that round; ``bits 32`` and ``bits 44`` are how many bits
of a generator's seed ever changed in it, of clients' own masks and of masks of pairs.
"""

import logging
import statistics
import sys
from importlib import import_module
from time import process_time
from typing import Any

from benchmarks.environments import serve


def main() -> None:
    """Serve rounds until the input ends."""
    import numpy as np

    mod: Any = import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")
    logging.disable(logging.CRITICAL)
    vectors, share = np.load(sys.argv[1]), float(sys.argv[2])
    kind, seeds = 0, dict[int, list[int]]()
    generate, generator = mod.pseudo_rand_gen, np.random.RandomState

    def watched(seed: bytes, *rest: Any) -> Any:
        nonlocal kind
        kind = len(seed)
        masks = generate(seed, *rest)
        kind = 0
        return masks

    def seeded(seed: int) -> Any:
        seeds.setdefault(kind, []).append(seed)
        return generator(seed)

    mod.pseudo_rand_gen, np.random.RandomState = watched, seeded  # type: ignore[misc, assignment]
    figures: dict[str, float] = {}

    def answer(line: str) -> float:
        nonlocal figures
        word, *rest = line.split()
        if word == "round":
            seeds.clear()
            figures = _round(vectors, share, rest[0], int(rest[1]))
            return float("error" in figures)
        if word == "bits":
            drawn = np.array(seeds[int(rest[0])], np.uint64)
            changed = np.bitwise_or.reduce(drawn) & ~np.bitwise_and.reduce(drawn)
            return int(changed).bit_count()
        return figures[word]

    serve(answer)


def _round(vectors: Any, share: float, stage: str, gone: int) -> dict[str, float]:
    import numpy as np
    from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
    from flwr.client.mod import secaggplus_mod
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.common.serde import message_from_proto, message_to_proto
    from flwr.compat.common import recorddict_compat
    from flwr.proto.message_pb2 import Message as Wire
    from flwr.server import LegacyContext, SimpleClientManager
    from flwr.server.compat.grid_client_proxy import GridClientProxy
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    n_clients = len(vectors)
    largest = np.maximum(np.abs(vectors).max(axis=0), 1)
    floats = vectors / largest * 8.0
    parties = {n + 2: Context(1, n + 2, {}, RecordDict(), {}) for n in range(n_clients)}
    spent, sizes = dict.fromkeys(parties, 0.0), {"up": 0, "down": 0}
    sent = set[int]()

    def carry(message: Any, way: str) -> Any:
        wire = message_to_proto(message).SerializeToString()
        sizes[way] += len(wire)
        return message_from_proto(Wire.FromString(wire))

    def fit(message: Any, _: Any) -> Any:
        vector = ndarrays_to_parameters([floats[message.metadata.dst_node_id - 2]])
        result = FitRes(Status(Code.OK, ""), vector, 1, {})
        return Message(recorddict_compat.fitres_to_recorddict(result, False), reply_to=message)

    def reply(message: Any) -> Any:
        node = message.metadata.dst_node_id
        now = message.content.config_records["secaggplus_configs"]["stage"]
        if now == stage and node < gone + 2:
            return Message(Error(1), reply_to=message)
        arrived, begin = carry(message, "down"), process_time()
        try:
            answer = secaggplus_mod(arrived, parties[node], fit)
        except (KeyError, TypeError, ValueError) as fault:  # what the mod raises
            return Message(Error(2, str(fault)), reply_to=message)
        spent[node] += process_time() - begin
        if now == "collect_masked_vectors":
            sent.add(node - 2)
        return carry(answer, "up")

    class Grid:
        """In memory: one client after the other."""

        def send_and_receive(self, messages: Any, **_: object) -> Any:
            return [reply(each) for each in messages]

    manager = SimpleClientManager()
    for node in parties:
        manager.register(GridClientProxy(node, None, 1))
    strategy = FedAvg(min_fit_clients=n_clients, min_available_clients=n_clients)
    context = LegacyContext(
        Context(1, 1, {}, RecordDict(), {}), strategy=strategy, client_manager=manager
    )
    context.state.config_records["config"] = ConfigRecord({"current_round": 1})
    empty = recorddict_compat.parameters_to_arrayrecord(ndarrays_to_parameters([]), True)
    context.state.array_records["parameters"] = empty
    workflow = SecAggPlusWorkflow(1.0, share, max_weight=1.0)
    begin = process_time()
    workflow(Grid(), context)
    seconds = process_time() - begin
    client = statistics.median([spent[n + 2] for n in sent] or [0.0])
    figures = {"seconds": seconds, "client": client, **sizes}
    mean = parameters_to_ndarrays(
        recorddict_compat.arrayrecord_to_parameters(context.state.array_records["parameters"], True)
    )
    if mean:
        exact = vectors[sorted(sent)].sum(axis=0)
        figures["error"] = float(np.abs(mean[0] / 8.0 * len(sent) - exact / largest).max())
    return figures


if __name__ == "__main__":
    main()
