# What runs on a machine: one operation on its state, sent over the session's standard input below a few lines that set
# r_*. It is all one function, so that what was cut off on its way does nothing. See the package comment for the states.
# Needs a POSIX shell, and flock, grep -z, setsid, sync and timeout of any Linux; for agents sha256sum too.

main() {
	umask 077
	LC_ALL=C
	export LC_ALL
	case $r_dir in
	/*) dir=$r_dir ;;
	*) dir=$HOME/$r_dir ;;
	esac
	mkdir -p "$dir" || broken "cannot make $dir"
	case $r_op in
	look)
		load
		agent_up "$(agent_status)" # a machine that was restarted has its agent again when it is listed next, claimed or not
		;;
	find)
		load
		meant || answer absent
		;;
	create) op_create ;;
	ready) op_ready ;;
	delete) op_delete ;;
	reset) op_reset ;;
	exec) op_exec ;;
	kill) op_kill ;;
	logs) op_logs ;;
	run) run && exit 0 || exit 1 ;;
	agent) agent_lives ;;
	*) broken "unknown operation $r_op" ;;
	esac
	answer ok
}

# answer ends the operation with what there is. Only what is between the two marks counts: a login shell may say more.
answer() {
	printf '\n==prewarm==\n'
	printf '%s\n' "outcome=$1" "detail=${2:-}" "dir=$dir" "phase=$s_phase" "installation=$s_installation" \
		"workspace=$s_workspace" "name=$s_name" "incarnation=$s_incarnation" "template=$s_template" \
		"preset=$s_preset" "created=$s_created" "fault=$s_detail"
	printf '==end==\n'
	exit 0
}

broken() {
	s_phase='' s_installation='' s_workspace='' s_name='' s_incarnation=0 s_template='' s_preset='' s_created=0 s_detail=''
	answer broken "$1"
}

# unreadable ends an operation on a machine whose mark does not say whose it is: nobody gets it, and nothing is changed.
unreadable() {
	s_phase='' s_installation='' s_workspace='' s_name='' s_incarnation=0 s_template='' s_preset='' s_created=0 s_detail=''
	answer unreadable "$1"
}

nothing() {
	s_phase=clean s_installation='' s_workspace='' s_name='' s_incarnation=0 s_next=0 s_template='' s_preset='' s_created=0
	s_detail=''
}

# load reads the state. A machine without one was never used.
load() {
	nothing
	if [ -e "$dir/state" ]; then
		whole=
		while IFS= read -r line; do
			value=${line#*=}
			case $line in
			phase=*) s_phase=$value ;;
			installation=*) s_installation=$value ;;
			workspace=*) s_workspace=$value ;;
			name=*) s_name=$value ;;
			incarnation=*) s_incarnation=$value ;;
			next=*) s_next=$value ;;
			template=*) s_template=$value ;;
			preset=*) s_preset=$value ;;
			created=*) s_created=$value ;;
			detail=*) s_detail=$value ;;
			end=*) whole=1 ;;
			esac
		done <"$dir/state"
		[ -n "$whole" ] || unreadable "its state file $dir/state is damaged"
	fi
	if [ "$s_phase" = clean ] && [ -e "$dir/workspace" ]; then
		unreadable "it says that it is unused, and has a workspace in $dir/workspace: reset it, then remove that directory"
	fi
}

# store writes the state aside and moves it into place, so that there is a whole one at every moment.
store() {
	s_phase=$1 s_detail=$(printf '%s' "${2:-}" | tr '\n\r' '  ' | cut -c 1-1000)
	{
		printf '%s\n' "phase=$s_phase" "installation=$s_installation" "workspace=$s_workspace" "name=$s_name" \
			"incarnation=$s_incarnation" "next=$s_next" "template=$s_template" "preset=$s_preset" \
			"created=$s_created" "detail=$s_detail" "end=" >"$dir/state.new" &&
			sync "$dir/state.new" && mv -f "$dir/state.new" "$dir/state" && sync "$dir"
	} 2>"$dir/store.err" || {
		why=$(cat "$dir/store.err" 2>/dev/null)
		rm -f "$dir/state.new" "$dir/store.err"
		broken "cannot write its state: ${why:-is its disk full?}"
	}
	rm -f "$dir/store.err"
}

# lock keeps operations on this machine apart, whoever sends them. It is held for moments only, by nothing that is waited
# for; `run.lock` is held for as long as a script of the workspace's runs.
lock() {
	exec 8>"$dir/lock"
	flock -w "$r_lock_s" 8 || broken "$dir/lock has been held for $r_lock_s s"
}

unlock() { exec 8>&-; }

# working says whether somebody is at it. Asking does not get into the way of others who ask.
working() { ! flock -s -n "$dir/run.lock" true 2>/dev/null; }

# start leaves the work to a process that outlives the session.
start() {
	setsid sh "$dir/run/machine" </dev/null >/dev/null 2>&1 8>&- &
}

# agent_there answers that the agent's program must be sent first, if it must, and to what kind of machine.
agent_there() { [ -z "$r_agent" ] || [ -x "$dir/agent/$r_agent" ] || answer agent "$(uname -m)"; }

agent_runs() { ! flock -s -n "$dir/run/agent.lock" true 2>/dev/null; }

# agent_status is what the agent exited with last; nothing while it runs.
agent_status() { cat "$dir/run/agent.status" 2>/dev/null; }

# agent_up starts the agent of a prepared workspace, unless it runs, or has run since that status. None ends while the lock is held.
agent_up() {
	[ "$s_phase" = prepared ] && [ -e "$dir/run/agent" ] && ! agent_runs || return 0
	(flock -w 2 7 && [ "$(agent_status)" = "$1" ] && rm -f "$dir/run/agent.status") 7>"$dir/run/agent.lock" || return 0
	PREWARM_MARK=$s_workspace.$s_incarnation setsid sh "$dir/run/machine" agent </dev/null >/dev/null 2>&1 8>&- 9>&- &
}

# agent_lives is a process of the machine's own that runs the agent, and holds a lock until it ends, which the agent's own
# children do not. It has the mark of the workspace, as they have. Who asks whether it runs has the lock for a moment.
agent_lives() {
	exec 7>"$dir/run/agent.lock"
	flock -w 2 7 || exit 0
	[ ! -e "$dir/run/agent.status" ] || exit 0 # another was first, and has ended since this one was started
	load
	[ "$s_phase" = prepared ] && [ "$PREWARM_MARK" = "$s_workspace.$s_incarnation" ] && . "$dir/run/agent" || exit 0
	mark=$PREWARM_MARK
	(
		cd "$dir/workspace" && . "$dir/run/env" && PREWARM_MARK=$mark PREWARM_DIR=$dir/workspace &&
			PREWARM_AGENT_URL=$r_agent_url PREWARM_AGENT_TOKEN_FILE=$dir/run/agent-token PREWARM_AGENT_DIR=$dir/run/claim &&
			export PREWARM_MARK PREWARM_DIR PREWARM_AGENT_URL PREWARM_AGENT_TOKEN_FILE PREWARM_AGENT_DIR || exit 126
		if [ -e "$dir/run/authorities.pem" ]; then
			PREWARM_AGENT_CA_FILE=$dir/run/authorities.pem
			export PREWARM_AGENT_CA_FILE
		fi
		exec "$dir/agent/$r_agent" agent
	) </dev/null >>"$dir/log" 2>&1 7>&-
	echo "$?" >"$dir/run/agent.status"
	exit 0
}

# agent_ended says whether that status is of an agent that ended by itself. Any other can be started again.
agent_ended() { [ "${1:-0}" != 0 ] && [ "$1" -le 128 ]; }

# agents_checked leaves no program but what its name says: the next workspace's agent is nothing that this one's user made.
agents_checked() {
	if [ -L "$dir/agent" ] || [ ! -d "$dir/agent" ]; then rm -rf "$dir/agent"; fi
	for file in "$dir"/agent/*; do
		[ -e "$file" ] || [ -L "$file" ] || continue
		if [ -L "$file" ] || [ ! -f "$file" ] || ! sum=$(sha256sum <"$file") || [ "${sum%% *}" != "${file##*/}" ]; then
			rm -rf "$file" || return 1
		fi
	done
}

meant() {
	[ "$s_phase" != clean ] && { [ -z "$r_name" ] || [ "$r_name" = "$s_name" ]; } &&
		{ [ -z "$r_workspace" ] || [ "$r_workspace" = "$s_workspace" ]; }
}

same() {
	[ "$r_installation $r_workspace $r_name" = "$s_installation $s_workspace $s_name" ]
}

# files puts the scripts and the environment into a directory; deliver is sent with the request.
files() {
	rm -rf "$dir/$1"
	mkdir "$dir/$1" && deliver "$dir/$1" && sync "$dir/$1" || {
		rm -rf "${dir:?}/$1"
		load
		answer failed "cannot write to $dir: is its disk full?"
	}
}

op_create() {
	lock
	load
	case $s_phase in
	clean)
		agent_there
		files run
		s_installation=$r_installation s_workspace=$r_workspace s_name=$r_name s_incarnation=$r_incarnation s_next=0
		s_template=$r_template s_preset=$r_preset s_created=$(date +%s)
		store preparing
		start
		;;
	*)
		[ "$s_name" = "$r_name" ] || answer taken "it is $s_phase for $s_name"
		same && [ "$s_incarnation" = "$r_incarnation" ] || answer conflict
		case $s_phase in
		preparing)
			agent_there
			working || start
			;;
		prepared)
			agent_there
			agent_up "$(agent_status)"
			;;
		failed) ;;
		*) answer busy "it is $s_phase" ;;
		esac
		;;
	esac
	unlock
}

op_ready() {
	load
	meant || answer absent
	case $s_phase in
	preparing)
		working && answer waiting "preparing"
		lock
		load
		meant || answer absent
		if [ "$s_phase" = preparing ] && ! working; then
			store preparing # which fails where there is no room
			start           # the machine was restarted; or the first is about to begin, and this one then finds nothing to do
		fi
		answer waiting "preparing"
		;;
	failed) answer over "$s_detail$(last_words)" ;;
	prepared)
		mark=$s_workspace.$s_incarnation
		status=$(agent_status) # before the look whether it runs: it may begin and end meanwhile
		if [ -e "$dir/run/agent" ] && ! agent_runs; then
			if agent_ended "$status"; then answer over "its agent exited with $status$(last_words)"; fi
			agent_up "$status"
			answer waiting "its agent starts"
		fi
		[ -e "$dir/run/check" ] || answer ready
		. "$dir/run/limits"
		said=$(scripted check "$r_check_s" 2>&1) && answer ready
		answer waiting "check: $(printf '%s' "${said:-it failed}" | tail -n 1 | cut -c 1-300)"
		;;
	*) answer over "the machine is $s_phase" ;;
	esac
}

last_words() {
	said=$(tail -n 3 "$dir/log" 2>/dev/null | tr '\n\r' '  ' | cut -c 1-300)
	[ -z "$said" ] || printf ': %s' "$said"
}

op_delete() {
	lock
	load
	meant || answer absent
	case $s_phase in
	resetting | wiping) working || start ;;
	*)
		[ -e "$dir/run/machine" ] || broken "$dir/run is gone, without which it cannot be reset"
		[ "$s_phase" = dirty ] && files_renewed
		store resetting
		start
		;;
	esac
	unlock
}

# files_renewed: what a reset that failed would have gone on with is of no use.
files_renewed() { rm -rf "$dir/run.next"; }

op_reset() {
	lock
	load
	[ "$s_phase" != clean ] && [ "$s_name" = "$r_name" ] || answer absent
	same || answer conflict
	[ "$s_incarnation" -le "$r_incarnation" ] || answer superseded
	case $s_phase in
	resetting | wiping) answer absent ;;
	renewing)
		[ "$s_next" -le "$r_incarnation" ] || answer superseded
		working || start
		answer waiting
		;;
	dirty) [ "$s_next" -le "$r_incarnation" ] || answer superseded ;;
	esac
	if [ "$s_incarnation" = "$r_incarnation" ]; then
		[ "$s_phase" != dirty ] || answer dirty "$s_detail"
		agent_there
		[ "$s_phase" != preparing ] || working || start
		agent_up "$(agent_status)"
		answer ok
	fi
	[ "$s_phase" != dirty ] || [ "$s_next" != "$r_incarnation" ] || [ -n "$r_again" ] || answer dirty "$s_detail"
	files run.next
	s_next=$r_incarnation
	store renewing
	start
	answer waiting
}

# marked are the processes that carry the workspace's mark, and with an argument those of its reset too.
marked() {
	grep -lzxF -e "PREWARM_MARK=$mark" ${1:+-e "PREWARM_MARK=$mark.reset"} /proc/[0-9]*/environ 2>/dev/null | while IFS= read -r path; do
		path=${path#/proc/}
		printf '%s\n' "${path%/environ}"
	done
}

# ended ends them all, and is false if it cannot.
ended() {
	signal=TERM
	for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
		pids=$(marked all)
		[ -n "$pids" ] || return 0
		# shellcheck disable=SC2086 # one word for each
		if [ "$turn" = 1 ] || [ "$turn" -gt 10 ]; then kill -"$signal" $pids 2>/dev/null; fi
		if [ "$turn" -ge 10 ]; then signal=KILL; fi
		sleep 0.1
	done
	return 1
}

# scripted runs one of the workspace's scripts in its directory, for so many seconds. Those that reset have a mark of their
# own, so that who waits for its turn to reset ends what prepares and not what resets.
scripted() {
	(
		cd "$dir/${3:-workspace}" && . "$dir/run/env" && PREWARM_MARK=$mark${4:-} PREWARM_DIR=$dir/workspace &&
			export PREWARM_MARK PREWARM_DIR &&
			exec timeout -k 5 "$2" sh "$dir/run/$1"
	) </dev/null 8>&- 9>&-
}

ending() {
	case $1 in
	124 | 137) printf '%s did not end within %s s' "$2" "$3" ;;
	*) printf '%s exited with %s' "$2" "$1" ;;
	esac
}

# run does what the state says is to be done, one process at a time. What an earlier one still runs for a state that is
# over is ended.
run() {
	exec 9>"$dir/run.lock"
	until flock -w 1 9; do
		load
		mark=$s_workspace.$s_incarnation
		# shellcheck disable=SC2046 # one word for each
		case $s_phase in resetting | renewing) kill -KILL $(marked) 2>/dev/null ;; esac
	done
	load
	mark=$s_workspace.$s_incarnation
	. "$dir/run/limits"
	case $s_phase in
	preparing) run_prepare ;;
	resetting | renewing) run_reset ;;
	wiping) run_wipe ;;
	esac
}

run_prepare() {
	why=
	if ended && rm -rf "$dir/workspace" && mkdir "$dir/workspace" && : >"$dir/log"; then
		if [ -e "$dir/run/prepare" ]; then
			scripted prepare "$r_prepare_s" >>"$dir/log" 2>&1
			status=$?
			[ "$status" = 0 ] || why=$(ending "$status" prepare "$r_prepare_s")
		fi
	else
		why="cannot make $dir/workspace"
	fi
	lock
	load
	if [ "$s_phase" = preparing ] && [ "$s_workspace.$s_incarnation" = "$mark" ]; then
		if [ -z "$why" ]; then store prepared; else store failed "$why"; fi
		agent_up "$(agent_status)"
	fi
	unlock
}

# run_reset makes sure that nothing of this incarnation is left, and only then says so.
run_reset() {
	why=
	mkdir -p "$dir/workspace"
	if [ -e "$dir/run/reset" ]; then
		scripted reset "$r_reset_s" workspace .reset >>"$dir/log" 2>&1
		status=$?
		[ "$status" = 0 ] || why=$(ending "$status" reset "$r_reset_s")
	fi
	ended || why="its processes cannot be ended: $(marked all | tr '\n' ' ')"
	agents_checked || why="$dir/agent cannot be cleaned"
	if ! rm -rf "$dir/workspace" || [ -e "$dir/workspace" ]; then why="$dir/workspace cannot be removed"; fi
	if [ -z "$why" ] && [ -e "$dir/run/proof" ]; then
		scripted proof "$r_check_s" . .reset >>"$dir/log" 2>&1
		status=$?
		[ "$status" = 0 ] || why=$(ending "$status" proof "$r_check_s")
	fi
	[ -z "$(marked all)" ] || why="it still has processes of incarnation $s_incarnation"
	lock
	load
	[ "$s_workspace.$s_incarnation" = "$mark" ] || return 0
	case $s_phase in
	resetting)
		if [ -n "$why" ]; then
			store dirty "$why"
			return
		fi
		store wiping
		run_wipe
		;;
	renewing)
		if [ -n "$why" ]; then
			store dirty "$why"
			return
		fi
		rm -rf "$dir/run" && mv "$dir/run.next" "$dir/run" || return
		s_incarnation=$s_next s_next=0
		store preparing
		unlock # which a script that takes long would hold else
		exec sh "$dir/run/machine"
		;;
	esac
}

run_wipe() {
	rm -rf "$dir/run" "$dir/run.next" "$dir/log"
	if [ -e "$dir/run" ] || [ -e "$dir/workspace" ]; then return 1; fi
	nothing
	store clean
}

# op_exec stores a command for the next session, which has its input and output to itself.
# Its process is the first of a session of its own, whose id is in a file for who has to end it.
op_exec() {
	lock
	load
	meant || answer absent
	[ "$s_phase" = prepared ] || answer busy "it is $s_phase"
	file=$dir/run/exec-$r_exec
	{
		[ ! -e "$dir/run/agent" ] || printf '%s\n' "PREWARM_CLAIM_FILE='$dir/run/claim/claim.json'" \
			"PREWARM_CLAIM_ENV='$dir/run/claim/claim.env'" "PREWARM_SECRETS='$dir/run/claim/secrets'" \
			"export PREWARM_CLAIM_FILE PREWARM_CLAIM_ENV PREWARM_SECRETS"
		printf '%s\n' 'rm -f -- "$0"' 'echo "$$" >"$0.pid"' ". '$dir/run/env'" "PREWARM_MARK=$s_workspace.$s_incarnation" \
			"PREWARM_DIR='$dir/workspace'" 'export PREWARM_MARK PREWARM_DIR' "cd '$dir/workspace' || exit 126" && deliver_command
	} >"$file.new" && mv "$file.new" "$file" || {
		rm -f "$file.new"
		answer failed "cannot write to $dir: is its disk full?"
	}
	unlock
}

# op_kill forgets such a command, and with r_again ends what it runs.
op_kill() {
	file=$dir/run/exec-$r_exec
	pid=$(cat "$file.pid" 2>/dev/null)
	[ -z "$pid" ] || [ -z "$r_again" ] || kill -KILL "-$pid" 2>/dev/null
	rm -f "$file" "$file.pid"
	load
}

# op_logs shows the output of the workspace; it follows until that is gone, or nobody listens.
op_logs() {
	load
	meant || answer absent
	was=$s_workspace
	printf '\n==log==\n'
	[ -e "$dir/log" ] || : >>"$dir/log"
	if [ -z "$r_follow" ]; then
		cat "$dir/log"
		exit 0
	fi
	exec 3<&0
	tail -c +1 -f "$dir/log" &
	tailing=$!
	(
		cat <&3 >/dev/null
		kill "$tailing" 2>/dev/null
	) >/dev/null 2>&1 &
	listening=$!
	while kill -0 "$tailing" 2>/dev/null; do
		sleep 1
		load >/dev/null
		[ "$s_workspace" = "$was" ] || kill "$tailing" 2>/dev/null
	done
	kill "$listening" 2>/dev/null
	exit 0
}
