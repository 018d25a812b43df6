/** The options of an installation. Only those that apply to the kind of source are shown. */
import type { InstallationSettings, JsonObject } from "@backplane/contract";
import { Checkbox, FileInput, TagsInput } from "@mantine/core";
import { useState } from "react";
import layout from "../../parts/styles/layout.module.css";
import type { SourceKind } from "./read-source.ts";

export type InstallChoices = Pick<
  InstallationSettings,
  "accept_source" | "allow_builds" | "allow_downgrade" | "allow_scripts" | "org_wide" | "signature" | "strict"
> & {
  /** A folder is watched instead of installed. */
  editable?: boolean;
};

type Option = keyof InstallChoices;

const OPTIONS: Record<SourceKind, readonly Option[]> = {
  npm: ["allow_scripts", "org_wide"],
  pypi: ["allow_builds", "org_wide"],
  image: ["org_wide"],
  oci: ["accept_source", "allow_downgrade", "org_wide"],
  mcp_url: ["org_wide"],
  mcp_json: ["strict", "allow_scripts", "allow_builds", "org_wide"],
  folder: ["editable", "strict", "allow_downgrade", "signature", "org_wide"],
  example: ["org_wide"],
  archive: ["strict", "allow_downgrade", "signature", "org_wide"],
};

const FLAGS = {
  accept_source: {
    label: "Accept another source repository",
    description: "The package's manifest names a repository other than the one it is installed from.",
  },
  allow_downgrade: {
    label: "Allow an older version",
    description: "A newer signed version was installed before.",
  },
  org_wide: {
    label: "Bind for the whole organization",
    description: "Without it, the exports are callable in this project.",
  },
  strict: {
    label: "Install all or nothing",
    description: "Without it, servers and skills that cannot be used are left out.",
  },
  editable: {
    label: "Link the folder instead of installing it",
    description: "Changes are trusted and loaded when a file is saved.",
  },
} as const satisfies Partial<Record<Option, { label: string; description: string }>>;

const LISTS = {
  allow_scripts: {
    label: "npm packages whose install scripts run",
    description: "In the sandbox, without network access or secrets. Press Enter after each name.",
  },
  allow_builds: {
    label: "Python packages that are built from source",
    description: "If they have no wheel; in the sandbox, without network access or secrets.",
  },
} as const satisfies Partial<Record<Option, { label: string; description: string }>>;

export interface InstallOptionFieldsProps {
  kind: SourceKind;
  value: InstallChoices;
  onChange: (value: InstallChoices) => void;
}

export function InstallOptionFields({ kind, value, onChange }: InstallOptionFieldsProps) {
  const options = OPTIONS[kind];
  const has = (option: Option) => options.includes(option);
  return (
    <details>
      <summary>More options</summary>
      <div className={layout.more}>
        {(Object.keys(LISTS) as (keyof typeof LISTS)[]).filter(has).map((option) => (
          <TagsInput
            key={option}
            {...LISTS[option]}
            value={value[option] ?? []}
            onChange={(names) => onChange(withChoice(value, option, names.length === 0 ? undefined : names))}
          />
        ))}
        {(Object.keys(FLAGS) as (keyof typeof FLAGS)[]).filter(has).map((option) => (
          <Checkbox
            key={option}
            {...FLAGS[option]}
            checked={value[option] ?? false}
            onChange={({ currentTarget }) =>
              onChange(withChoice(value, option, currentTarget.checked ? true : undefined))
            }
          />
        ))}
        {has("signature") && (
          <SignatureFile onChange={(signature) => onChange(withChoice(value, "signature", signature))} />
        )}
      </div>
    </details>
  );
}

/** An option without a value is left out. */
function withChoice<K extends Option>(
  value: InstallChoices,
  option: K,
  next: InstallChoices[K] | undefined,
): InstallChoices {
  const { [option]: _before, ...rest } = value;
  return (next === undefined ? rest : { ...rest, [option]: next }) as InstallChoices;
}

function SignatureFile({ onChange }: { onChange: (signature: JsonObject | undefined) => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const read = async (next: File | null) => {
    setFile(next);
    setProblem(null);
    if (next === null) return onChange(undefined);
    try {
      onChange(JSON.parse(await next.text()) as JsonObject);
    } catch {
      onChange(undefined);
      setProblem("Choose a file that `backplane plugin sign` wrote.");
    }
  };
  return (
    <FileInput
      label="Signature"
      description="A detached signature, if the package does not contain it."
      placeholder="Choose a file"
      clearable
      value={file}
      error={problem}
      onChange={(next) => void read(next)}
    />
  );
}

/** The choices of the kind as flags of `backplane plugin install`. */
export function choiceFlags(kind: SourceKind, choices: InstallChoices): string[] {
  return listChoices(kind, choices).flatMap(([option, value]) => {
    const flag = option === "allow_builds" ? "--allow-build" : `--${option.replaceAll("_", "-")}`;
    if (Array.isArray(value)) return value.flatMap((name) => [flag, String(name)]);
    return option === "signature" ? [flag, "FILE"] : [flag];
  });
}

/**
 * The flags of `backplane plugin install` for the same installation. Choices that have no effect are left out, because
 * the command line refuses their flags.
 */
export function installFlags(
  kind: SourceKind,
  choices: InstallChoices,
  { bind, kernel_plugin }: { bind: boolean; kernel_plugin: boolean },
): string[] {
  if (kernel_plugin) return [];
  if (kind === "folder" && choices.editable === true) return ["--editable"];
  if (bind) return ["--bind", ...choiceFlags(kind, choices)];
  const { org_wide: _needs_binding, ...others } = choices;
  return ["--no-bind", ...choiceFlags(kind, others)];
}

/** The settings to send; choices that were made for another kind of source are dropped. */
export function choiceSettings(kind: SourceKind, choices: InstallChoices): InstallationSettings {
  return Object.fromEntries(listChoices(kind, choices).filter(([option]) => option !== "editable"));
}

function listChoices(kind: SourceKind, choices: InstallChoices): [string, unknown][] {
  return Object.entries(choices).filter(([option]) => OPTIONS[kind].includes(option as Option));
}
