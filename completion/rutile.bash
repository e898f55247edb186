# SPDX-License-Identifier: MIT
# bash completion of rutile. Verbs and options are asked from the program when they are needed, so
# that they are those of the installed version.

_rutile_targets() {
  echo app all rails proxy
  "$1" ps 2>/dev/null | awk 'NR > 1 { print $1 }'
}

# The argument that an option of the verb takes: "FILE", "TIME"; empty for a flag.
_rutile_argument() {
  "$1" help --options "$2" 2>/dev/null | awk -F'\t' -v o="$3" '
    { split($1, f, "="); if (f[1] == o) print f[2] }'
}

_rutile() {
  local prog=${COMP_WORDS[0]} verb=${COMP_WORDS[1]} cur=${COMP_WORDS[COMP_CWORD]} i
  local prev=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$("$prog" help --verbs 2>/dev/null) --help --version" -- "$cur")
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [ "${COMP_WORDS[i]}" = -- ]; then
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      else
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
      fi
      return
    fi
  done
  if [ "$prev" = -o ]; then
    prev=--output
  fi
  case $(_rutile_argument "$prog" "$verb" "$prev") in
    "" | "["*) ;;
    FILE | DIR | PATH | TRACE*)
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      return
      ;;
    *) return ;;
  esac
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("$prog" help --options "$verb" 2>/dev/null |
      awk -F'[\t=]' '{ print $1 }')" -- "$cur")
  elif [ "$verb" = help ]; then
    mapfile -t COMPREPLY < <(compgen -W "$("$prog" help --verbs 2>/dev/null)" -- "$cur")
  elif "$prog" help "$verb" 2>/dev/null | grep -q '^usage:.*TARGET'; then
    mapfile -t COMPREPLY < <(compgen -W "$(_rutile_targets "$prog")" -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}

_foreman_tracer() {
  local cur=${COMP_WORDS[COMP_CWORD]} words=
  case $COMP_CWORD in
    1) words="rails foreman proxy" ;;
    2) words="trace calls time strings arrays objects objects-total" ;;
    3) words="app all" ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _rutile rutile
complete -F _foreman_tracer foreman-tracer
