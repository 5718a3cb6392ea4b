"""The same network for a batch of episodes that are being played, with few operations a step.

A step of play is some hundreds of operations on small tensors, so their number is what it costs.
An observation's state before each layer depends on nothing else: it is computed once, normalised,
and kept on a tape that grows in place. Keys and values are linear in it, so their projections are
multiplied into the queries and into what is made of a reading, which are few: q . (W x) is
(q W) . x. So the layers of both halves read one tape, and the heads of all of an episode's tokens
are rows of one product in place of many small ones.

A tape holds states relative to that of the token which stands for no data. This token is then a
row of zeros in front, whose logit is zero: powers need no maximum taken off, and the column of
ones that follows the states sums them.
The numbers are those of `Network.read` up to rounding (tests/model/test_tape.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from aline.episodes import Context, Goal
from aline.model.attention import PER_NAT, Absorbed, Layer, powers
from aline.model.closeup import Seen
from aline.model.network import Decoded, Network, View, plain_observations
from aline.model.rows import Rows

ROOM = 31  # observations that a tape has room for at first


class Feed(NamedTuple):
    """The feed-forward half of a layer, its norm's affine part in the first matrix."""

    first: Tensor  # [embed, hidden]
    first_bias: Tensor  # [hidden]
    second: Tensor  # [hidden, embed]
    second_bias: Tensor  # [embed]

    @classmethod
    def of(cls, layer: Layer) -> Feed:
        """Multiply the matrices."""
        norm, first, second = layer.norm_feed, layer.feed_in, layer.feed_out
        bias = first.bias + first.weight @ norm.bias
        return cls((first.weight * norm.weight).T, bias, second.weight.T, second.bias)

    def __call__(self, rows: Tensor) -> Tensor:
        """Rows [n, embed] after it."""
        inner = torch.addmm(self.first_bias, F.layer_norm(rows, rows.shape[-1:]), self.first)
        return torch.addmm(self.second_bias, inner.relu_(), self.second).add_(rows)


class Reader(NamedTuple):
    """A layer's matrices [inputs, outputs] for reading tapes."""

    norm: tuple[Tensor, Tensor]  # weight and bias [embed], of a token before it asks
    feed: Feed
    query: Tensor  # [embed, head * embed], of a token
    query_bias: Tensor  # [head * embed]
    out: Tensor  # [head * width, embed], of what the heads read

    @classmethod
    def of(cls, layer: Layer, nothing: Tensor, plain: int) -> Reader:
        """For tapes relative to `nothing` [embed], with `plain` numbers behind each state."""
        heads, embed = layer.heads, len(nothing)
        by_head = (heads, embed // heads, embed)
        scale = PER_NAT / math.sqrt(embed // heads)
        norm, (keys, values) = layer.norm_key, layer.key_value.weight.chunk(2)
        of_query = layer.query.weight.view(by_head) * scale  # [head, head_dim, embed]
        of_key = (keys * norm.weight).view(by_head)
        of_value = (values * norm.weight).view(by_head)
        out = layer.out.weight.T.reshape(by_head)
        # What every reading has in it, however it weighs the tape: the ones bring it along.
        value_bias = layer.key_value.bias[embed:] + values @ (norm.weight * nothing + norm.bias)
        always = value_bias.view(heads, 1, -1) @ out + layer.out.bias / heads
        return cls(
            (layer.norm_query.weight, layer.norm_query.bias),
            Feed.of(layer),
            (of_query.mT @ of_key).transpose(0, 1).flatten(1),
            (layer.query.bias.view(heads, 1, -1) * scale @ of_key).flatten(),
            F.pad(torch.cat([of_value.mT @ out, always], 1), (0, 0, 0, plain)).flatten(0, 1),
        )

    def __call__(self, rows: Tensor, tape: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Rows [batch * token, embed] after reading tapes [batch, context, width] and feeding.

        Also what they read, [batch, token * head, width]. The bias is [batch, 1, context].
        """
        embed = rows.shape[1]
        asking = F.layer_norm(rows, (embed,), *self.norm)
        query = torch.addmm(self.query_bias, asking, self.query)
        logits = query.view(len(tape), -1, embed) @ tape[..., :embed].mT
        if bias is not None:
            logits += bias
        read = powers(logits) @ tape
        read = read / read[..., embed : embed + 1]
        return self.feed(torch.addmm(rows, read.view(len(rows), -1), self.out)), read

    def absorb(self, tape: Tensor, bias: Tensor | None) -> Absorbed:
        """A tape as many tokens of the layer read it."""
        (batch, context, width), embed = tape.shape, len(self.query)
        heads = self.query.shape[1] // embed
        states = tape[..., :embed]
        of_state = self.query.view(embed, heads, embed).transpose(0, 2).flatten(1)
        always = states @ self.query_bias.view(heads, embed).T
        if bias is not None:
            always = always + bias.mT
        told = tape @ self.out.view(heads, width, embed).transpose(0, 1).flatten(1)
        split = (batch, context * heads, -1)
        return Absorbed((states @ of_state).view(split), always.reshape(split), told.view(split))


class Readers(NamedTuple):
    """A network's weights as tapes are read with them; later changes of them do not show."""

    nothing: Tensor  # [layer, 1, embed], the normalised states that a tape is relative to
    inference: list[Reader]
    policy: list[Reader]

    @classmethod
    @torch.no_grad()
    def of(cls, network: Network) -> Readers:
        """Multiply the matrices."""
        nothing = normalised(network.context_states(network.nothing[None]))
        plain = plain_width(network)
        below = nothing[-len(network.policy.layers) :]
        return cls(
            nothing,
            [Reader.of(*pair, plain) for pair in zip(network.layers, nothing[:, 0], strict=True)],
            [
                Reader.of(*pair, plain)
                for pair in zip(network.policy.layers, below[:, 0], strict=True)
            ],
        )


def plain_width(network: Network) -> int:
    """How many numbers an observation is as it is."""
    return len(network.spec.design) + network.spec.outcome.width if network.config.shortcuts else 0


def normalised(states: list[Tensor]) -> Tensor:
    """States as every layer's norm leaves them but for its affine part, [layer, ...]."""
    return F.layer_norm(torch.stack(states), states[0].shape[-1:])


@torch.no_grad()
def begin_tape(network: Network, batch: int) -> TapeView:
    """A view of no data yet for a batch of episodes, of an "independent" context."""
    readers = Readers.of(network)
    plain = plain_width(network)
    first = torch.zeros(len(readers.nothing), batch, 1, network.config.width + 1 + plain)
    first[..., network.config.width] = 1.0
    empty = Context.empty(batch, len(network.spec.design), network.spec.outcome.event_shape)
    view = TapeView(
        network, empty, [], [], None, None, (batch, 1), readers=readers, rows=Rows(first, ROOM)
    )
    if network.kernels is not None:
        view.bank = network.kernels.read(empty, None, None)
    return view


@dataclass(kw_only=True)
class TapeView(View):
    """A view of a batch; `hidden` and `keys` stay empty, a tape takes their place.

    Nothing can be learned from it.
    """

    readers: Readers
    rows: Rows  # [layer, batch, 1 + context, embed + 1 + plain], of this and of later views

    @property
    def tape(self) -> Tensor:
        """What this view's observations left."""
        return self.rows.buffer[:, :, : 1 + self.context.length]

    @property
    def _is_learning(self) -> bool:
        return False

    def _fold(self, tokens: Tensor) -> Tensor:
        return tokens

    @torch.no_grad()
    def decode(self, tokens: Tensor) -> Decoded:
        """Target tokens [batch, 1, target, embed] after each layer; they see only context."""
        embed = tokens.shape[-1]
        rows, states = tokens.reshape(-1, embed), []
        for reader, tape in zip(self.readers.inference, self.tape, strict=True):
            rows, read = reader(rows, tape, None)
            states.append(rows.view(tokens.shape))
        heads = (*tokens.shape[:3], self.network.config.heads, -1)
        return Decoded(states, read.view(heads)[..., embed + 1 :].flatten(-2))

    def _seen(self) -> Seen:
        """The observations as they are, without the token that stands for none."""
        return Seen.of(self.tape[-1, :, None, 1:, self.network.config.width + 1 :])

    @torch.no_grad()
    def _policy_decode(self, tokens: Tensor, goal: Goal) -> Tensor:
        """Queries see the context and the selected targets, never each other."""
        rows = tokens.reshape(-1, tokens.shape[-1])
        tapes, bias = self._with_goal(goal)
        for reader, tape in zip(self.readers.policy, tapes, strict=True):
            rows, _ = reader(rows, tape, bias)
        out: Tensor = self.network.policy.norm(rows.view(tokens.shape))
        return out

    def _absorbed(self, goal: Goal) -> list[Absorbed]:
        tapes, bias = self._with_goal(goal)
        return [r.absorb(tape, bias) for r, tape in zip(self.readers.policy, tapes, strict=True)]

    def _with_goal(self, goal: Goal) -> tuple[Tensor, Tensor | None]:
        """Tapes of the policy's layers with the goal's tokens at the end, and what is added."""
        states, bias = self._goal_states(goal)
        tape = self.tape[-len(states) :]
        rows = self._relative([state[:, 0] for state in states])
        plain = tape.shape[-1] - rows.shape[-1]
        if bias is not None:
            bias = F.pad(PER_NAT * bias[:, 0, 0], (tape.shape[2], 0))
        return torch.cat([tape, F.pad(rows, (0, plain))], 2), bias

    def _relative(self, states: list[Tensor]) -> Tensor:
        """Rows of a tape [layer, batch, token, embed + 1] for the states in the last layers."""
        nothing = self.readers.nothing[-len(states) :, None]
        return F.pad(normalised(states) - nothing, (0, 1), value=1.0)

    @torch.no_grad()
    def extend(self, design: Tensor, outcome: Tensor) -> TapeView:
        """With one more observation: design [batch, design], outcome [batch]."""
        network, known = self.network, 1 + self.context.length
        new_one = Context(design[:, None], outcome[:, None])
        states = [network.observe_tokens(design, outcome)]
        for reader in self.readers.inference[:-1]:
            states.append(reader.feed(states[-1]))
        row = self._relative([state[:, None] for state in states])
        if network.config.shortcuts:
            plain = plain_observations(new_one, network.spec.outcome)
            row = torch.cat([row, plain.expand(len(row), *plain.shape)], -1)
        view = TapeView(
            network,
            self.context.append(design, outcome),
            [],
            [],
            None,
            None,
            self.shape,
            readers=self.readers,
            rows=self.rows.append(known, row),
        )
        if self.bank is not None:
            view.bank = self.bank.extend(design, outcome)
        return view
