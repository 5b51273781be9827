"""How well an encoder predicts links on a data set that lies as a folder, by the protocols that tables are made with.

    python -m tests.benchmarks.links_quality FOLDER --preset paper --activity --pair-features

Prints one JSON object per run: test average precision, pooled and as the mean over batches of 200, with negatives among
all destinations (as in published tables) and among those seen before. With --run it can be killed and goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from stream_tgat.evaluation.datasets.folder import load_folder
from stream_tgat.graph.splits import chronological_split, hold_out_nodes
from stream_tgat.nn.model import Model, ModelConfig
from stream_tgat.nn.threads import use_one_thread
from stream_tgat.training.checkpoint import Checkpoint
from stream_tgat.training.epochs import Progress
from stream_tgat.training.links import LinkSettings, pooled_average_precision, score_links, train_links
from stream_tgat.training.negatives import AnyDestination, RandomNegatives
from stream_tgat.training.scoring import Graph

TEST_SEED, VALIDATION_SEED = 2, 1
BATCH = 200


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--affinity", default="mlp")
    parser.add_argument("--activity", action="store_true")
    parser.add_argument("--pair-features", action="store_true")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--time", type=int, default=64)
    parser.add_argument("--zero-features", type=int, default=0, help="width of node features that are all zero")
    parser.add_argument("--neighbours", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--neighbour-dropout", type=float, default=0.0)
    parser.add_argument("--sampling", default="recent")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--patience", type=int, default=10)
    parser.add_argument("--negatives", type=int, default=1)
    parser.add_argument("--historical-share", type=float, default=0.0)
    parser.add_argument("--averaging", type=float, default=0.0)
    parser.add_argument("--epoch-events", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seen-negatives", action="store_true", help="train and stop on destinations seen before only")
    parser.add_argument("--in-order", action="store_true", help="batches in the order of time")
    parser.add_argument("--hold-out", type=float, default=0.0, help="share of all nodes, hidden from training")
    parser.add_argument("--run", type=Path, help="folder of the checkpoint")
    return parser.parse_args()


def main() -> None:
    wanted = arguments()
    use_one_thread()
    interactions = load_folder(wanted.folder).interactions
    split = chronological_split(interactions.time)
    config = ModelConfig(
        preset=wanted.preset,
        affinity=wanted.affinity,
        activity=wanted.activity,
        pair_features=wanted.pair_features,
        layers=wanted.layers,
        attention_heads=wanted.heads,
        hidden=wanted.hidden,
        time_dim=wanted.time,
        node_features=wanted.zero_features,
        neighbours=wanted.neighbours,
        candidates=max(wanted.candidates, wanted.neighbours),
        attention_dropout=wanted.dropout,
    )
    settings = LinkSettings(
        epochs=wanted.epochs,
        batch_size=BATCH,
        negatives=wanted.negatives,
        historical_share=wanted.historical_share,
        averaging=wanted.averaging,
        learning_rate=wanted.learning_rate,
        patience=wanted.patience,
        seed=wanted.seed,
        epoch_events=wanted.epoch_events,
        validation_events=None,
        neighbour_dropout=wanted.neighbour_dropout,
        sampling=wanted.sampling,
        shuffle=not wanted.in_order,
    )
    features = np.zeros((interactions.node_count, wanted.zero_features), np.float32) if wanted.zero_features else None
    later = interactions.select(slice(split.train.stop, None))
    later_count = len(np.unique(np.concatenate([later.source, later.destination])))
    share = wanted.hold_out * interactions.node_count / later_count
    hidden = hold_out_nodes(interactions, split, share, seed=2020)
    part = interactions.select(split.train)
    part = part.select(~(hidden[part.source] | hidden[part.destination]))
    whole, known = Graph.of(interactions, features), Graph.of(part, features)
    make = RandomNegatives if wanted.seen_negatives else AnyDestination
    torch.manual_seed(wanted.seed)
    model = Model(config)
    started = time.perf_counter()
    result = train_links(
        model,
        whole,
        slice(0, len(part)),
        split.validation,
        settings,
        Progress(on_epoch=lambda epoch: print(json.dumps(asdict(epoch)), flush=True)),
        training_graph=known,
        negatives=make(part, wanted.seed),
        validation_negatives=make(interactions, VALIDATION_SEED),
        checkpoint=None if wanted.run is None else Checkpoint(wanted.run),
    )
    steps = -(-(wanted.epoch_events or len(part)) // BATCH)
    figures: dict[str, float] = {}
    test = np.arange(split.test.start, split.test.stop)
    for name, maker in (("all", AnyDestination), ("seen", RandomNegatives)):
        positive, negative = score_links(model, whole, maker(interactions, TEST_SEED), test, 1, BATCH)
        batches = [slice(start, start + BATCH) for start in range(0, len(test), BATCH)]
        figures |= {
            f"test_ap_pooled_{name}": pooled_average_precision(positive, negative),
            f"test_ap_batches_{name}": float(
                np.mean([pooled_average_precision(positive[each], negative[each]) for each in batches])
            ),
            f"test_auc_{name}": float(
                roc_auc_score(np.arange(2 * len(positive)) < len(positive), np.concatenate([positive, negative[:, 0]]))
            ),
        }
    outcome = {
        "command": {key: str(value) if isinstance(value, Path) else value for key, value in vars(wanted).items()},
        "train": len(part),
        "test": len(test),
        "best_epoch": result.best,
        "validation_ap": result.epochs[result.best].average_precision,
        "batch_s": min(epoch.seconds for epoch in result.epochs) / steps,
        "wall_s": time.perf_counter() - started,
        **figures,
    }
    print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
