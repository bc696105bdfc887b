"""The index types and sentinels of producer id allocation."""

from __future__ import annotations

from typing import Annotated

from model.language import Index, Range

Broker = Annotated[int, Index("brokers")]
BrokerOrNone = Annotated[int, Range(-1, "last_broker")]
ProducerId = Annotated[int, Index("ids")]
BlockOrNone = Annotated[int, Range(-1, "last_block")]
"""Blocks are counted from 0; block b has the ids from b * block_size on."""
BlockCount = Annotated[int, Range(0, "blocks")]
Used = Annotated[int, Range(0, "block_size")]
Load = Annotated[int, Range(0, "producers")]

NO_BLOCK = -1
NO_BROKER = -1
