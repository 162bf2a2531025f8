#!/bin/sh
# install USER makes the service, and start starts it.
set -e
unit=actions.runner.service
if [ "$1" = install ]; then
	cp bin/runsvc.sh .
	cat > "/etc/systemd/system/$unit" <<-END
		[Service]
		User=$2
		WorkingDirectory=$PWD
		ExecStart=$PWD/runsvc.sh
	END
else
	systemctl "$1" "$unit"
fi
