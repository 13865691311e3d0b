"""Fixes for Caffe2 nets that cannot be converted as they are, shared by many messages."""

from __future__ import annotations

from prototrt.caffe_proto.advice import CUT_BEFORE_OPERATOR

GIVE_SHAPES_AND_INIT_NET = "give the shapes and the init net that belong to this predict net"
GIVE_BOTH_NETS = "give the predict net first and the init net second"
GIVE_INIT_NET = "give the init net of this predict net"
MEND_ARGUMENTS = "correct the arguments, or export the net again"
EXPORT_AGAIN = "export the net again"
EXPORT_LINKS_AGAIN = "export the net again: its links do not fit together"
CUT_BEFORE = CUT_BEFORE_OPERATOR
