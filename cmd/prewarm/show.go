package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// Most commands ask the server one thing and print its answer. What is here makes the RunE of such a command. What its
// flags say is checked in PreRunE: then nothing is asked with a wrong one.

// runE runs a command.
type runE = func(cmd *cobra.Command, args []string) error

// withClient runs a command that needs a client.
func (a *app) withClient(run func(ctx context.Context, c *sdk.Client, args []string) error) runE {
	return func(cmd *cobra.Command, args []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), client, args)
	}
}

// asks is withClient, with the command's argument if it takes one.
func (a *app) asks(run func(ctx context.Context, c *sdk.Client, arg string) error) runE {
	return a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
		arg := ""
		if len(args) > 0 {
			arg = args[0]
		}
		return run(ctx, c, arg)
	})
}

// unanswered is the PreRunE of a command that has no answer to be shown in another form, and says why.
func (a *app) unanswered(why string) runE {
	return func(*cobra.Command, []string) error {
		return usageErrorIf(a.output != "table", "%s, so -o %s cannot be", why, a.output)
	}
}

// asking is what a command asks, in the form of a method of the client. arg is empty where it takes none.
type asking[T any] func(c *sdk.Client, ctx context.Context, arg string) (T, error)

// acting is what a command does, in the same form.
type acting = func(c *sdk.Client, ctx context.Context, arg string) error

// noArg asks with a method that takes no argument.
func noArg[T any](method func(*sdk.Client, context.Context) (T, error)) asking[T] {
	return func(c *sdk.Client, ctx context.Context, _ string) (T, error) { return method(c, ctx) }
}

// ofPreset asks with a method that takes the argument TEMPLATE/PRESET in its two parts.
func ofPreset[T any](method func(c *sdk.Client, ctx context.Context, template, preset string) (T, error)) asking[T] {
	return func(c *sdk.Client, ctx context.Context, arg string) (T, error) {
		template, preset, _ := strings.Cut(arg, "/")
		return method(c, ctx, template, preset)
	}
}

// onPreset is ofPreset for a method that answers nothing.
func onPreset(method func(c *sdk.Client, ctx context.Context, template, preset string) error) acting {
	return func(c *sdk.Client, ctx context.Context, arg string) error {
		template, preset, _ := strings.Cut(arg, "/")
		return method(c, ctx, template, preset)
	}
}

// show prints what is answered, as JSON or as text.
func show[T any](a *app, ask asking[T], text func(T) string) runE {
	return a.asks(func(ctx context.Context, c *sdk.Client, arg string) error {
		answered, err := ask(c, ctx, arg)
		if err != nil {
			return err
		}
		return a.print(answered, text(answered))
	})
}

// act does something to what the argument names, and says so: in JSON under a key, and as text in a format.
func act(a *app, do acting, key, format string) runE {
	ask := func(c *sdk.Client, ctx context.Context, arg string) (map[string]string, error) {
		return map[string]string{key: arg}, do(c, ctx, arg)
	}
	return show(a, ask, func(done map[string]string) string { return fmt.Sprintf(format, done[key]) })
}
