/** Installs a plugin: a person chooses a source and reads what it will be able to do before anything is installed. */
import type { Client, PluginExample } from "@backplane/client";
import type {
  Installation,
  InstallationSettings,
  PluginView,
  SourceInspection,
  WorkspaceFolder,
} from "@backplane/contract";
import { Button, Checkbox, FileInput, Radio, Select, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { packageQueries } from "../../api/packages.ts";
import { useClient, useServices } from "../../api/services.ts";
import { Card } from "../../parts/layout/card.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { OperationProgress, useOperation } from "../../parts/notices/operation-progress.tsx";
import layout from "../../parts/styles/layout.module.css";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import {
  choiceSettings,
  type InstallChoices,
  InstallOptionFields,
  installFlags,
} from "./install-options.tsx";
import { InstallReview } from "./install-review.tsx";
import { InstalledResult } from "./installed-result.tsx";
import {
  draftOf,
  installCommand,
  type RequestedSource,
  readSource,
  SERVER_KINDS,
  SOURCE_KINDS,
  type SourceDraft,
  type SourceKind,
} from "./read-source.ts";

export type InstallResult =
  | Installation
  | { kind: "kernel"; plugins: PluginView[] }
  | { kind: "linked"; folder: WorkspaceFolder };

export function InstallPage() {
  const search = useSearch({ from: "/plugins/install" });
  const { queries } = useServices();
  const [draft, setDraft] = useState<SourceDraft>(() => draftOf(search.source ?? ""));
  const [file, setFile] = useState<File | null>(null);
  const installed = useQuery(packageQueries.all(useClient()));
  const [bind_choice, setBindChoice] = useState<boolean | null>(null);
  const [choices, setChoices] = useState<InstallChoices>({});
  const examples = useQuery({ ...packageQueries.examples(useClient()), enabled: draft.kind === "example" });
  const source = chosenSource(draft, file, examples.data ?? []);
  const problem = typeof source === "string" ? source : null;
  const inspect = useOperation(inspectSource);
  // The bindings would change their version, so by default the upgrade is reviewed afterwards.
  const upgrade_ids = (inspect.data?.packages ?? [])
    .filter(({ package_id, version }) =>
      installed.data?.some((row) => row.package_id === package_id && row.version !== version),
    )
    .map(({ package_id }) => package_id);
  const bind = bind_choice ?? upgrade_ids.length === 0;
  const install = useOperation(
    (client: Client, input: InstallInput) => installSource(client, input),
    () =>
      void Promise.all(
        ["packages", "bindings", "catalog", "plugins", "marketplace"].map((noun) =>
          queries.invalidateQueries({ queryKey: [noun] }),
        ),
      ),
  );
  const change = (changes: Partial<SourceDraft>) => {
    setDraft((current) => ({ ...current, ...changes }));
    inspect.reset();
    install.reset();
  };
  const review = () => {
    if (typeof source !== "string") inspect.run(source);
  };
  const kernel_plugin = inspect.data?.kind === "kernel_plugins";
  if (install.data !== undefined)
    return (
      <InstalledResult
        installed={install.data}
        upgrades={bind ? [] : upgrade_ids}
        onInstallAnother={() => change({ text: "" })}
      />
    );
  return (
    <>
      <PageHeader
        title="Install a plugin"
        lead="Nothing from the source is installed or run before you have reviewed its permissions."
      />
      <div className={layout.stack}>
        <Card title="1. Where it comes from">
          <form
            className={layout.form}
            onSubmit={(event) => {
              event.preventDefault();
              review();
            }}
          >
            <SourceFields
              draft={draft}
              examples={examples.data ?? []}
              file={file}
              problem={problem}
              onChange={change}
              onFile={(next) => {
                setFile(next);
                change({});
              }}
            />
            {inspect.running ? (
              <OperationProgress
                label="Inspecting the source"
                progress={inspect.progress}
                onCancel={inspect.cancel}
              />
            ) : (
              <div className={layout.row}>
                <Button
                  type="submit"
                  disabled={problem !== null}
                  variant={inspect.data === undefined ? "filled" : "default"}
                >
                  Review
                </Button>
              </div>
            )}
          </form>
        </Card>
        {inspect.error !== null && <ErrorView error={inspect.error} onRetry={review} />}
        {inspect.data !== undefined && !installed.isPending && (
          <>
            <InstallReview inspection={inspect.data} draft={draft} />
            <Card title="3. Install">
              <div className={layout.form}>
                {!kernel_plugin && (
                  <Checkbox
                    label="Make the exports callable now"
                    description={
                      upgrade_ids.length === 0
                        ? "Binds them with the permissions above. Without it, you bind them later with your own settings."
                        : "Another version is installed, and its bindings would change to this one. Without it, you review the upgrade first."
                    }
                    checked={bind}
                    onChange={({ currentTarget }) => setBindChoice(currentTarget.checked)}
                  />
                )}
                {!kernel_plugin && (
                  <InstallOptionFields kind={draft.kind} value={choices} onChange={setChoices} />
                )}
                {install.error !== null && <ErrorView error={install.error} />}
                {install.running ? (
                  <OperationProgress
                    label="Installing"
                    progress={install.progress}
                    onCancel={install.cancel}
                  />
                ) : (
                  <div className={layout.row}>
                    <Button
                      disabled={problem !== null}
                      onClick={() => {
                        if (typeof source !== "string")
                          install.run({ draft, source, choices, bind, inspection: inspect.data! });
                      }}
                    >
                      Install
                    </Button>
                  </div>
                )}
                <CliCommand
                  command={shellCommand(
                    ...installCommand(
                      // A kernel plugin takes neither arguments nor secrets.
                      kernel_plugin ? { ...draft, args: "", slots: [] } : draft,
                      file?.name ?? null,
                      installFlags(draft.kind, choices, { bind, kernel_plugin }),
                    ),
                  )}
                />
              </div>
            </Card>
          </>
        )}
      </div>
    </>
  );
}

/** An archive on this computer, or a source that the gateway reads itself. */
type ChosenSource = { file: File } | RequestedSource;

interface InstallInput {
  draft: SourceDraft;
  source: ChosenSource;
  choices: InstallChoices;
  bind: boolean;
  inspection: SourceInspection;
}

/** If the draft is incomplete or invalid, returns the reason as a string. */
function chosenSource(
  draft: SourceDraft,
  file: File | null,
  examples: readonly PluginExample[],
): ChosenSource | string {
  if (draft.kind === "archive" && file !== null) return { file };
  return readSource(draft, examples);
}

interface SourceFieldsProps {
  draft: SourceDraft;
  examples: readonly PluginExample[];
  file: File | null;
  /** The reason why the source cannot be read; null if it can. */
  problem: string | null;
  onChange: (changes: Partial<SourceDraft>) => void;
  onFile: (file: File | null) => void;
}

function SourceFields({ draft, examples, file, problem, onChange, onFile }: SourceFieldsProps) {
  const { kind, text, name, args } = draft;
  // A field that has not been filled in yet is not wrong.
  const [text_problem, name_problem] =
    text.trim() === "" ? [null, null] : kind === "mcp_url" ? [null, problem] : [problem, null];
  const { label, placeholder, hint } = SOURCE_KINDS.find(({ value }) => value === kind)!;
  const edit = (value: string) => {
    // A source in the notation of the command line selects its kind.
    const known = /^(?:npm:|pypi:|image:|example:|oci:\/\/|https?:\/\/)/.test(value) ? draftOf(value) : null;
    onChange(known === null ? { text: value } : { kind: known.kind, text: known.text });
  };
  return (
    <>
      <Radio.Group
        label="Kind of source"
        value={kind}
        onChange={(next) => onChange({ kind: next as SourceKind })}
      >
        <div className={layout.choices}>
          {SOURCE_KINDS.map((one) => (
            <Radio.Card
              key={one.value}
              value={one.value}
              className={layout.choice ?? ""}
              aria-label={one.label}
            >
              <span className={layout.choiceLabel}>{one.label}</span>
              <span className={layout.choiceHint}>{one.short}</span>
            </Radio.Card>
          ))}
        </div>
      </Radio.Group>
      {kind === "archive" && (
        <FileInput
          label="Archive"
          description={hint}
          placeholder="Choose a file"
          value={file}
          onChange={onFile}
          clearable
        />
      )}
      {kind === "mcp_json" && (
        <Textarea
          label={label}
          description={hint}
          placeholder={placeholder}
          autosize
          minRows={6}
          maxRows={20}
          spellCheck={false}
          value={text}
          error={text_problem}
          onChange={({ currentTarget }) => edit(currentTarget.value)}
        />
      )}
      {kind === "example" && (
        <Select
          label={label}
          description={examples.find((one) => one.name === text)?.description ?? hint}
          placeholder={placeholder}
          searchable
          data={examples.map((one) => one.name)}
          value={text === "" ? null : text}
          error={examples.length === 0 ? null : text_problem}
          onChange={(next) => onChange({ text: next ?? "" })}
        />
      )}
      {kind !== "archive" && kind !== "mcp_json" && kind !== "example" && (
        <TextInput
          label={label}
          description={hint}
          placeholder={placeholder}
          spellCheck={false}
          value={text}
          error={text_problem}
          onChange={({ currentTarget }) => edit(currentTarget.value)}
        />
      )}
      {kind === "mcp_url" && (
        <TextInput
          label="Name"
          description="The tools of the server are named mcp_NAME_…."
          value={name}
          error={name_problem}
          onChange={({ currentTarget }) => onChange({ name: currentTarget.value })}
        />
      )}
      {(kind === "npm" || kind === "pypi" || kind === "image") && (
        <Textarea
          label="Arguments of the server"
          description="One per line; most servers need none."
          autosize
          spellCheck={false}
          value={args}
          onChange={({ currentTarget }) => onChange({ args: currentTarget.value })}
        />
      )}
      {kind === "pypi" && (
        <TextInput
          label="Program"
          description="Only if the package has several."
          value={draft.script}
          onChange={({ currentTarget }) => onChange({ script: currentTarget.value })}
        />
      )}
      {SERVER_KINDS.includes(kind) && (
        <TagsInput
          label="Secret slots"
          description="Names for secrets that the server needs and does not declare itself. You bind the secrets later."
          value={[...draft.slots]}
          onChange={(slots) => onChange({ slots })}
        />
      )}
    </>
  );
}

async function inspectSource(client: Client, source: ChosenSource): Promise<SourceInspection> {
  return "kind" in source
    ? await client.installations.inspect(source)
    : await client.installations.inspectArchive(source.file, {}, namedFile(source.file));
}

async function installSource(
  client: Client,
  { draft, source, choices, bind, inspection }: InstallInput,
): Promise<InstallResult> {
  if (inspection.kind === "kernel_plugins")
    return { kind: "kernel", plugins: await client.plugins.install(inspection.plugins[0]!.source) };
  if (draft.kind === "folder" && choices.editable === true)
    return {
      kind: "linked",
      folder: await client.workspaces.trust({ path: draft.text.trim(), kind: "plugin", watch: true }),
    };
  const settings: InstallationSettings = { bind, ...choiceSettings(draft.kind, choices) };
  return "kind" in source
    ? await client.installations.install({ ...settings, source })
    : await client.installations.installArchive(source.file, settings, {}, namedFile(source.file));
}

/** The file name without its extension. It becomes the name of a package that has no name of its own. */
function namedFile({ name }: File): { name: string } {
  return { name: name.replace(/\.(?:tgz|tar\.gz|tar|zip|jar)$/, "") };
}
