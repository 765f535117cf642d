"""Private names of Dask that the runtime uses: nodes of task graphs. Changes in Dask affect only this module."""

from dask._task_spec import Alias as Alias
from dask._task_spec import DataNode as DataNode
from dask._task_spec import GraphNode as GraphNode
from dask._task_spec import List as List
from dask._task_spec import Task as Task
from dask._task_spec import TaskRef as TaskRef
from dask._task_spec import convert_legacy_graph as convert_legacy_graph
