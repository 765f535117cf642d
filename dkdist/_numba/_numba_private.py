"""Private objects of Numba for compilation, code cache and LLVM IR. Only this module imports them."""

from numba.core import cgutils as cgutils
from numba.core import event as event
from numba.core.caching import CompileResultCacheImpl as CompileResultCacheImpl
from numba.core.caching import FunctionCache as FunctionCache
from numba.core.caching import IndexDataCacheFile as IndexDataCacheFile
from numba.core.caching import UserWideCacheLocator as UserWideCacheLocator
from numba.core.codegen import JITCodeLibrary as JITCodeLibrary
from numba.core.codegen import get_host_cpu_features as get_host_cpu_features
from numba.core.compiler import Compiler as Compiler
from numba.core.datamodel import models as models
from numba.core.registry import cpu_target as cpu_target
