# Where things are kept outside the tree. Sourced by the scripts.
export TESSERA_CACHE=${TESSERA_CACHE:-${HOME:?}/.cache/tessera}
export TESSERA_PREFIX=${TESSERA_PREFIX:-${HOME:?}/.cache/tessera/prefix}
tessera_venv=$TESSERA_CACHE/venv
tessera_python=$tessera_venv/bin/python
tessera_tosa_venv=$TESSERA_CACHE/venv-tosa
