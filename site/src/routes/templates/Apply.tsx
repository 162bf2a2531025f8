import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Button } from "../../components/Button";
import { Page, Section } from "../../components/Page";
import { ErrorState, Notice } from "../../components/Status";
import { RelativeTime } from "../../components/Time";
import type { ApplyResult, Plan } from "../../generated/api";
import { call } from "../../services/api";
import { refresh } from "../../services/query";
import { useMay } from "../../services/session";
import { Applied, PlanView, Refusal } from "./PlanView";

/** Most that a request may hold, in bytes; a configuration is far below it. */
const most = 1 << 20;

/** ApplyPage takes a file, shows what it would do, and applies just that. It begins with that of a template, if one is named. */
export function ApplyPage() {
  const { template } = useSearch({ from: "/inside/apply" });
  const may = useMay();
  const client = useQueryClient();
  const [file, setFile] = useState("pasted.yaml");
  const [source, setSource] = useState("");
  const [planned, setPlanned] = useState<Plan>();
  const [applied, setApplied] = useState<ApplyResult>();
  const [large, setLarge] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const plan = useMutation({
    networkMode: "always",
    mutationFn: () => call("create-plan", { body: { document: source, file } }),
    onSuccess: setPlanned,
  });
  const apply = useMutation({
    networkMode: "always",
    mutationFn: (id: string) => call("apply", { body: { plan: id, document: source, file } }),
    onSuccess: (result) => {
      setApplied(result);
      setPlanned(undefined);
    },
    onSettled: () => refresh(client),
  });
  /** edit forgets what was said about another text. */
  const edit = (text: string, name = file) => {
    setSource(text);
    setFile(name);
    setPlanned(undefined);
    setApplied(undefined);
    setLarge(false);
    plan.reset();
    apply.reset();
  };
  const exported = useMutation({
    networkMode: "always",
    mutationFn: (of: string) => call("export-template", { params: { template: of } }),
    onSuccess: (got) => edit(got.document, `${got.template}.yaml`),
  });
  const begin = exported.mutate;
  useEffect(() => {
    if (template) begin(template);
  }, [template, begin]);
  const choose = async (chosen: File | undefined) => {
    if (!chosen) return;
    if (chosen.size > most) {
      edit("", chosen.name);
      setLarge(true);
      return;
    }
    edit(await chosen.text(), chosen.name);
  };
  return (
    <Page
      title="Apply a file"
      above={
        <Link to="/templates" className="link">
          Templates
        </Link>
      }
      lead="Providers, templates and presets become what a YAML file says. First you see what that would do."
    >
      {!may("apply") ? (
        <Notice tone="warning">Your role cannot change the configuration. Ask a template admin to apply it.</Notice>
      ) : (
        <>
          <Section title="The file" beside={source ? file : undefined}>
            <form
              className="flex flex-col gap-4"
              onSubmit={(e) => {
                e.preventDefault();
                setApplied(undefined);
                apply.reset();
                plan.mutate();
              }}
              onDragOver={(e) => e.preventDefault()}
              onDrop={(e) => {
                e.preventDefault();
                void choose(e.dataTransfer.files[0]);
              }}
            >
              <label className="flex flex-col gap-1.5 text-sm font-medium">
                YAML, pasted or out of a file
                <textarea
                  className="field min-h-64 resize-y font-mono text-xs leading-5"
                  value={source}
                  spellCheck={false}
                  autoCapitalize="off"
                  autoComplete="off"
                  wrap="off"
                  placeholder={"templates:\n  - name: web-ide\n    provider: docker\n    …"}
                  onChange={(e) => edit(e.target.value)}
                />
              </label>
              <input
                ref={chooser}
                type="file"
                accept=".yaml,.yml,text/yaml,application/yaml"
                className="sr-only"
                aria-label="File to apply"
                tabIndex={-1}
                onChange={(e) => {
                  void choose(e.target.files?.[0]);
                  e.target.value = ""; // the same file can be chosen again
                }}
              />
              {large && <p className="text-sm text-failed">That file is above 1 MB: split it.</p>}
              <div className="flex flex-wrap gap-2">
                <Button icon="template" onClick={() => chooser.current?.click()}>
                  Choose a file
                </Button>
                <Button
                  type="submit"
                  look={planned ? "plain" : "primary"}
                  busy={plan.isPending}
                  disabled={source.trim() === ""}
                  icon="search"
                >
                  {planned || apply.error ? "Plan again" : "Show what it does"}
                </Button>
              </div>
            </form>
          </Section>
          {exported.error && <ErrorState error={exported.error} />}
          {plan.error && <Refusal error={plan.error} source={source} />}
          {apply.error && <Refusal error={apply.error} source={source} />}
          {applied && <Applied changes={applied.changes} />}
          {planned && (
            <>
              <PlanView plan={planned} />
              <div className="flex flex-wrap items-center gap-3">
                <Button
                  look="primary"
                  icon="check"
                  busy={apply.isPending}
                  disabled={planned.changes.length === 0}
                  onClick={() => apply.mutate(planned.id)}
                >
                  Apply this plan
                </Button>
                <p className="min-w-0 text-sm text-ink-2">
                  As of <RelativeTime at={planned.at} />. If anything that it depends on has moved by then, nothing is applied.
                </p>
              </div>
            </>
          )}
        </>
      )}
    </Page>
  );
}
