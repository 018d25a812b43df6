/** Shows the content of a source and its permissions before anything is installed. */
import { describeProvenance, type Permissions, type SourceInspection } from "@backplane/contract";
import { useQuery } from "@tanstack/react-query";
import { packageQueries } from "../../api/packages.ts";
import { useClient } from "../../api/services.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { PermissionList, Sentence } from "../../parts/values/permission-list.tsx";
import { RequestedPermissions } from "./package-permissions.tsx";
import { countText } from "./package-text.ts";
import type { SourceDraft } from "./read-source.ts";

const KINDS: Record<SourceInspection["kind"], string> = {
  package: "a package",
  agent_plugin: "an Agent Plugin with servers and skills",
  mcp_servers: "MCP servers",
  kernel_plugins: "kernel plugins, which extend the gateway itself",
};

export function InstallReview({ inspection, draft }: { inspection: SourceInspection; draft: SourceDraft }) {
  const { kind, packages, plugins, left_out, notes } = inspection;
  return (
    <Card title="2. What it is and what it will be able to do">
      <div className={layout.stack}>
        <p className={layout.text}>
          This source contains {KINDS[kind]}:{" "}
          {[...packages, ...plugins].map(({ name, version }) => `${name} ${version}`).join(", ")}.
        </p>
        {packages.map((preview) => (
          <PackageReview key={preview.package_id} preview={preview} draft={draft} />
        ))}
        {plugins.map(({ name, version, category, provenance }) => (
          <section key={name} className={layout.tight} aria-label={name}>
            <h3 className={layout.subtitle}>
              {name} {version} ({category})
            </h3>
            <ul className={layout.sentences}>
              <Sentence tone="warn" icon="alert">
                The plugin becomes part of the agent host and sees the conversations in which it is used.
              </Sentence>
              <Sentence tone="good" icon="shield">
                The plugin runs in a process of its own until you trust it.
              </Sentence>
              {provenance !== undefined && <ProvenanceSentence provenance={provenance} />}
            </ul>
          </section>
        ))}
        {left_out.map(({ kind: part_kind, name, reason, fix }) => (
          <Notice key={name} tone="warn" title={`The ${part_kind} ${name} cannot be used`}>
            <p>
              {reason} {fix}
            </p>
          </Notice>
        ))}
        {notes.map((note) => (
          <p key={note} className={layout.dimmed}>
            {note}
          </p>
        ))}
      </div>
    </Card>
  );
}

type Preview = SourceInspection["packages"][number];

function PackageReview({ preview, draft }: { preview: Preview; draft: SourceDraft }) {
  const { name, package_id, version, manifest, provenance, exports, secret_slots } = preview;
  const installed = useQuery(packageQueries.all(useClient())).data?.filter(
    (row) => row.package_id === package_id,
  );
  const is_installed = installed?.some((row) => row.version === version) === true;
  return (
    <section className={layout.tight} aria-label={name}>
      <div className={layout.between}>
        <h3 className={layout.subtitle}>
          {name} {version}
        </h3>
        <span className={layout.row}>
          {is_installed && (
            <Badge tone="info" icon="check">
              This version is installed
            </Badge>
          )}
          {!is_installed && installed !== undefined && installed.length > 0 && (
            <Badge tone="warn" icon="up">
              {`Installed: ${installed.map((row) => row.version).join(", ")}`}
            </Badge>
          )}
        </span>
      </div>
      {manifest !== undefined && manifest.description !== "" && (
        <p className={layout.text}>{manifest.description}</p>
      )}
      <ul className={layout.sentences}>
        <Sentence tone="quiet" icon="plugin">
          {exports.includes("*")
            ? "The package reports its tools at run time."
            : `The package offers ${countText(exports.length, "export")}: ${exports.join(", ")}.`}
        </Sentence>
        {provenance !== undefined && <ProvenanceSentence provenance={provenance} />}
        {secret_slots.length > 0 && (
          <Sentence tone="warn" icon="secret">
            Its bindings stay inactive until {secret_slots.join(", ")}{" "}
            {secret_slots.length === 1 ? "has" : "have"} a secret.
          </Sentence>
        )}
      </ul>
      {manifest === undefined ? (
        <PermissionList permissions={serverPermissions(draft, secret_slots)} />
      ) : (
        <RequestedPermissions manifest={manifest} />
      )}
    </section>
  );
}

function ProvenanceSentence({ provenance }: { provenance: NonNullable<Preview["provenance"]> }) {
  const verified = provenance.state === "verified";
  return (
    <Sentence tone={verified ? "good" : "warn"} icon={verified ? "approval" : "question"}>
      Provenance: {describeProvenance(provenance)}.
    </Sentence>
  );
}

/** The most that a server without a manifest of its own can get; the gateway writes the manifest. */
function serverPermissions({ kind, text }: SourceDraft, secret_slots: string[]): Permissions {
  const common = { network: "egress", gateway_api_scopes: [], secret_slots } as const;
  const url = kind === "mcp_url" && URL.canParse(text) ? new URL(text) : null;
  return url === null
    ? { ...common, gateway_api_scopes: [], filesystem: "scratch" }
    : { ...common, gateway_api_scopes: [], filesystem: "none", allowed_domains: [url.host] };
}
