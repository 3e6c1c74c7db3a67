"""The compiled hot path: rings, frame loop, sampler, talker, code predictor, codec decoder, playout."""

from ._libs import preload

LIBRARIES = preload()
