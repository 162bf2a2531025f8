//go:build linux

package main

import (
	"cdr.dev/slog"
	"github.com/spf13/pflag"

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
}

// complete checks the flags. No message repeats the address: there may be a secret in it.
func (w *webhookFlags) complete(opts *coderd.Options) error {
	address, err := valueOrFile("notify-url", "address of webhook", w.url, w.urlFile)
	switch {
	case err != nil:
		return err
	case address == "" && w.secretFile != "":
		return usageErrorf("--notify-secret-file goes with --notify-url or --notify-url-file")
	case address == "":
		return nil
	case w.secretFile == "":
		return usageErrorf("--notify-secret-file is missing: notifications are signed with what is in it")
	}
	secret, err := readTrimmed("secret of webhook", w.secretFile)
	if err != nil {
		return err
	}
	opts.Notify, err = coderd.ParseWebhook(address, secret)
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
