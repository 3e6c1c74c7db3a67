"""Where the time goes: attribution of an utterance's wall time, and statistics of steps."""

from edgettsd.metrics.attribution import attribution
from edgettsd.metrics.recorder import Recorder
from edgettsd.metrics.steps import StepStatistics, quantiles

__all__ = ["Recorder", "StepStatistics", "attribution", "quantiles"]
