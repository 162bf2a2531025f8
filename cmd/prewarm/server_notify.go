//go:build linux

package main

import (
	"os"
	"strings"

	"cdr.dev/slog"
	"github.com/spf13/pflag"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd"
)

// webhookFlags say where people are told of what will not mend itself.
type webhookFlags struct{ url, urlFile, secretFile string }

func (w *webhookFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&w.url, "notify-url", "",
		"webhook that notifications are sent to; prefer the file or the variable for one with a secret in it")
	flags.StringVar(&w.urlFile, "notify-url-file", "", "file that holds the address of the webhook")
	flags.StringVar(&w.secretFile, "notify-secret-file", "",
		"file that holds the secret that notifications are signed with, at least 16 bytes")
	for _, name := range []string{"notify-url", "notify-url-file", "notify-secret-file"} {
		fromEnv(flags, name, "PREWARM_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
}

// complete checks the flags. No message repeats the address: there may be a secret in it.
func (w *webhookFlags) complete(opts *coderd.Options) error {
	if w.url != "" && w.urlFile != "" {
		return usageErrorf("--notify-url and --notify-url-file cannot both be given")
	}
	address := w.url
	if w.urlFile != "" {
		content, err := os.ReadFile(w.urlFile)
		if err != nil {
			return xerrors.Errorf("read address of webhook: %w", err)
		}
		address = strings.TrimSpace(string(content))
	}
	switch {
	case address == "" && w.urlFile != "":
		return xerrors.Errorf("read address of webhook: %s is empty", w.urlFile)
	case address == "" && w.secretFile != "":
		return usageErrorf("--notify-secret-file goes with --notify-url or --notify-url-file")
	case address == "":
		return nil
	case w.secretFile == "":
		return usageErrorf("--notify-secret-file is missing: notifications are signed with what is in it")
	}
	secret, err := os.ReadFile(w.secretFile)
	if err != nil {
		return xerrors.Errorf("read secret of webhook: %w", err)
	}
	opts.Notify, err = coderd.ParseWebhook(address, strings.TrimSpace(string(secret)))
	if err != nil {
		return usageErrorf("%v", err)
	}
	return nil
}

func completeLog(opts *coderd.Options, format, level string) error {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	var known bool
	if opts.LogLevel, known = levels[level]; !known {
		return usageErrorf("--log-level %q: it is debug, info, warn or error", level)
	}
	switch format {
	case "text":
	case "json":
		opts.JSONLog = true
	default:
		return usageErrorf("--log-format %q: it is text or json", format)
	}
	return nil
}
