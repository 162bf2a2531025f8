// Command misbehaving is a plugin of Terraform that does what no plugin should, for tests of what a run survives. Package codertest
// builds it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/plugin"
)

func main() {
	plugin.Serve(&plugin.ServeOpts{ProviderFunc: func() *schema.Provider {
		return &schema.Provider{ResourcesMap: map[string]*schema.Resource{"misbehaving_thing": {
			Schema:        map[string]*schema.Schema{"does": {Type: schema.TypeString, Required: true, ForceNew: true}},
			CreateContext: create,
			ReadContext:   nothing,
			DeleteContext: nothing,
		}}}
	}})
}

func nothing(context.Context, *schema.ResourceData, any) diag.Diagnostics { return nil }

func create(_ context.Context, d *schema.ResourceData, _ any) diag.Diagnostics {
	d.SetId("made")
	switch does, _ := d.Get("does").(string); does {
	case "crash":
		os.Exit(3)
	case "hang":
		select {} // also when it is asked to stop
	case "tell": // all that it was given
		return diag.Errorf("it has:\n%s", strings.Join(os.Environ(), "\n"))
	case "fill":
		return diag.FromErr(fill())
	case "ask":
		answer, err := io.ReadAll(os.Stdin)
		return diag.Errorf("asked, and answered with %q, %v", answer, err)
	}
	return nil
}

// fill writes until there is no room, at most 1 GiB.
func fill() error {
	f, err := os.Create("filling")
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	defer f.Close()
	for range 1 << 10 {
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}
