package main

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the types instead of comparing with them")

// TestTypesAreCurrent: the types that the pages are checked against are those of the API.
func TestTypesAreCurrent(t *testing.T) {
	t.Parallel()
	const path = "../../site/src/generated/api.ts"
	if *update {
		require.NoError(t, run([]string{path}))
		return
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	want, err := generate()
	require.NoError(t, err)
	require.Equal(t, want, string(got), "run `make gen`")
}

func TestTypescript(t *testing.T) {
	t.Parallel()
	got, err := typescript([]byte(`{
		"components": {"schemas": {"Cell": {"type": "object", "required": ["state"], "properties": {
			"state": {"type": "string", "enum": ["ready", "empty"], "description": "What it is */"},
			"tags": {"type": ["array", "null"], "items": {"type": "string"}},
			"more": {"type": "object", "additionalProperties": {"type": "integer"}},
			"next-one": {"$ref": "#/components/schemas/Cell"}
		}}}},
		"paths": {
			"/api/v1/cells/{cell}": {"post": {"operationId": "set-cell", "summary": "Set a cell", "x-action": "template.apply",
				"parameters": [
					{"name": "cell", "in": "path", "schema": {"type": "string"}},
					{"name": "force", "in": "query", "schema": {"type": "boolean"}}],
				"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Cell"}}}},
				"responses": {"204": {}}}},
			"/api/v1/instance/status": {"post": {"operationId": "report"}}
		}}`))
	require.NoError(t, err)
	require.Equal(t, head+`export interface Cell {
  more?: Record<string, number>;
  "next-one"?: Cell;
  /** What it is * / */
  state: "ready" | "empty";
  tags?: string[];
}

/** What each operation takes and answers, by its id. */
export interface Operations {
  /** Set a cell. */
  "set-cell": {
    path: { cell: string };
    query: { force?: boolean };
    body: Cell;
    answer: undefined;
  };
}

/** Method and path of each operation. */
export const operations: Readonly<Record<keyof Operations, readonly [method: string, path: string]>> = {
  "set-cell": ["POST", "/api/v1/cells/{cell}"],
};

/** Roles with any part in an operation. What is shown goes by this; what is allowed, the server decides. */
export const roles: Readonly<Record<keyof Operations, readonly Identity["role"][]>> = {
  "set-cell": ["owner", "template-admin"],
};
`, got)
	_, err = typescript([]byte(`{"components": {"schemas": {"X": {"properties": {"y": {"type": "date"}}}}}}`))
	require.ErrorContains(t, err, `schema X: property y: type "date" is not known here`)
}
