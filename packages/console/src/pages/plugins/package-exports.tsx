/** The exports of a package: tools as the model sees them, with their cost and name collisions, and the other kinds. */
import {
  type CatalogEntry,
  isObject,
  isSelfDescribing,
  type Json,
  type JsonObject,
  type Package,
  type PluginExport,
} from "@backplane/contract";
import { useQuery } from "@tanstack/react-query";
import { catalogQueries } from "../../api/catalog.ts";
import { useClient } from "../../api/services.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import { ReasonNotice } from "../../parts/notices/reason-notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { durationText } from "../../parts/text/time-text.ts";
import { Badge, RiskBadge } from "../../parts/values/badge.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { CatalogBadge } from "../../parts/values/plugin-badges.tsx";

export function PackageExports({ pkg }: { pkg: Package }) {
  const catalog = useQuery(catalogQueries.list(useClient(), { all: true }));
  if (catalog.isError && catalog.data === undefined)
    return <ErrorView error={catalog.error} onRetry={() => void catalog.refetch()} />;
  if (catalog.isPending) return <ListSkeleton />;
  const entries = catalog.data.filter(
    ({ package_id, package_version }) => package_id === pkg.package_id && package_version === pkg.version,
  );
  const listed = new Set(entries.map(({ name }) => name));
  const declared = pkg.manifest.exports.filter(({ id, kind }) => kind !== "tool" || !listed.has(id));
  const cost = entries.reduce(
    (sum, { token_cost, status, deferred }) => sum + (status === "offered" && !deferred ? token_cost : 0),
    0,
  );
  return (
    <div className={layout.stack}>
      {entries.length > 0 && (
        <p className={layout.dimmed}>
          The tools that this package offers cost about {cost} tokens in every request that lists them.
        </p>
      )}
      {entries.map((entry) => (
        <ToolCard key={`${entry.binding_id} ${entry.name}`} entry={entry} all={catalog.data} />
      ))}
      {declared.map((item) => (
        <DeclaredCard key={item.id} pkg={pkg} item={item} />
      ))}
      {pkg.manifest.skills?.map(({ name, description }) => (
        <Card key={name} title={`Skill ${name}`}>
          <p className={layout.text}>{description}</p>
        </Card>
      ))}
      {entries.length + pkg.manifest.exports.length + (pkg.manifest.skills?.length ?? 0) === 0 && (
        <EmptyView icon="terminal">
          {isSelfDescribing(pkg.manifest.runtime.protocol)
            ? "This package reports its tools at run time, so they are listed here only after it has been bound."
            : "This package exports nothing."}
        </EmptyView>
      )}
    </div>
  );
}

/** A tool as the catalog lists it: with sanitized texts, and with the other tools of the same name. */
function ToolCard({ entry, all }: { entry: CatalogEntry; all: readonly CatalogEntry[] }) {
  const { name, description, status, reason, fix, risk, effect_class, requires_approval, token_cost } = entry;
  const others = all.filter((one) => one.name === name && one.binding_id !== entry.binding_id);
  return (
    <Card
      title={name}
      actions={
        <span className={layout.row}>
          <CatalogBadge status={status} />
          <RiskBadge risk={risk} />
          {requires_approval && (
            <Badge tone="warn" icon="approval">
              Needs approval
            </Badge>
          )}
        </span>
      }
    >
      <div className={layout.stack}>
        {others.length > 0 && (
          <Notice
            tone={status === "failed" ? "bad" : "warn"}
            title={`Another plugin also claims the name ${name}`}
          >
            <p>
              {others.map(({ package_id, status: other }) => `${package_id} (${other})`).join(", ")}. {reason}{" "}
              {fix}
            </p>
          </Notice>
        )}
        {others.length === 0 && reason !== null && <ReasonNotice tone="warn" reason={reason} fix={fix} />}
        <p className={layout.text}>{description}</p>
        <Fields
          items={[
            ["Effect", effect_class.replaceAll("_", " ")],
            ["Cost", `About ${token_cost} tokens in every request that lists the tool`],
            [
              "Deferred",
              entry.deferred ? `Until tool_search finds it (${entry.deferred_by ?? "author"})` : null,
            ],
            ["Hidden characters removed", entry.taken_out.length === 0 ? null : entry.taken_out.join("; ")],
          ]}
        />
        <ModelView name={name} description={description} schema={entry.input_schema} />
      </div>
    </Card>
  );
}

function DeclaredCard({ pkg, item }: { pkg: Package; item: PluginExport }) {
  const schema = item.kind === "tool" ? schemaOf(pkg, item.tool.input_schema) : null;
  return (
    <Card
      title={item.display_name ?? item.id}
      actions={
        <span className={layout.row}>
          <Badge tone="quiet" icon="plugin">
            {item.kind}
          </Badge>
          {item.kind === "tool" && item.tool.risk !== undefined && <RiskBadge risk={item.tool.risk} />}
        </span>
      }
    >
      <div className={layout.stack}>
        {item.description !== undefined && <p className={layout.text}>{item.description}</p>}
        <Fields
          items={[
            ["Export", item.id],
            ["Effect", item.kind === "tool" ? item.tool.effect_class.replaceAll("_", " ") : null],
            ["Receives", item.kind === "hook" ? item.hook.subscribes_to.join(", ") : null],
            ["Context", item.kind === "compactor" ? item.compactor.target_context : null],
            ["Mode", item.kind === "harness" ? item.harness.mode : null],
            ["Timeout", durationText(item.default_timeout_ms)],
            ["Cost", item.kind === "tool" ? "Known when it is bound" : null],
          ]}
        />
        {schema !== null && <ModelView name={item.id} description={item.description ?? ""} schema={schema} />}
      </div>
    </Card>
  );
}

function ModelView({ name, description, schema }: { name: string; description: string; schema: JsonObject }) {
  return (
    <details>
      <summary>What the model sees</summary>
      <JsonView label={`${name} as the model sees it`} value={{ name, description, input_schema: schema }} />
    </details>
  );
}

/** A schema of the package, by the path that its manifest names. */
function schemaOf({ schemas }: Package, path: string | undefined): JsonObject | null {
  const schema: Json | undefined = path === undefined ? undefined : schemas[path];
  return isObject(schema) ? (schema as JsonObject) : null;
}
