"""The machine: what it has (probe), what follows from it (adapt), and how warm it gets (thermal)."""

from edgettsd.hw.adapt import Decision, Plan, adapt
from edgettsd.hw.isa import own_isa
from edgettsd.hw.probe import load_profile, probe
from edgettsd.hw.profile import Cpu, Profile, ProfileError, Zone

__all__ = [
    "Cpu",
    "Decision",
    "Plan",
    "Profile",
    "ProfileError",
    "Zone",
    "adapt",
    "load_profile",
    "own_isa",
    "probe",
]
