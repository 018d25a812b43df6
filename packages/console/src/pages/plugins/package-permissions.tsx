/** Permissions: requested by the author, granted here, and used by recent calls. */
import type { Binding, Invocation, Package, Permissions } from "@backplane/contract";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { bindingQueries } from "../../api/bindings.ts";
import { invocationQueries } from "../../api/invocations.ts";
import { useClient } from "../../api/services.ts";
import { Card } from "../../parts/layout/card.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { GrantList, PermissionList, Sentence } from "../../parts/values/permission-list.tsx";
import { countText } from "./package-text.ts";

const RECENT = 50;

export function PackagePermissions({ pkg, bindings }: { pkg: Package; bindings: readonly Binding[] }) {
  const bound = bindings.filter(({ package_version }) => package_version === pkg.version);
  return (
    <div className={layout.pair}>
      <Card title="Requested by the author">
        <RequestedPermissions manifest={pkg.manifest} />
      </Card>
      <div className={layout.stack}>
        {bound.length === 0 && (
          <Card title="Granted">
            <EmptyView icon="shield">Nothing is granted, because this version is not bound.</EmptyView>
          </Card>
        )}
        {bound.map((binding) => (
          <GrantedCard key={binding.binding_id} binding={binding} />
        ))}
      </div>
    </div>
  );
}

/** The process and each export request their own permissions. */
export function RequestedPermissions({ manifest }: Pick<Package, "manifest">) {
  const { runtime, exports } = manifest;
  const groups: [string, Permissions][] = [
    ...(runtime.permissions === undefined
      ? []
      : [["All its tools", runtime.permissions] as [string, Permissions]]),
    ...exports.map(({ id, permissions }): [string, Permissions] => [id, permissions]),
  ];
  if (groups.length === 0) return <p className={layout.dimmed}>The package requests nothing.</p>;
  return (
    <div className={layout.stack}>
      {groups.map(([name, permissions]) => (
        <div key={name} className={layout.tight}>
          <h3 className={layout.subtitle}>{name}</h3>
          <PermissionList permissions={permissions} />
        </div>
      ))}
    </div>
  );
}

function GrantedCard({ binding }: { binding: Binding }) {
  const client = useClient();
  const { binding_id, export_id } = binding;
  const report = useQuery(bindingQueries.validation(client, binding_id));
  return (
    <Card title={`Granted to ${export_id === "*" ? "all tools" : export_id}`}>
      {report.isPending && <ListSkeleton />}
      {report.isError && <ErrorView error={report.error} onRetry={() => void report.refetch()} />}
      {report.data !== undefined && (
        <div className={layout.stack}>
          <GrantList grant={report.data.grant} />
          {report.data.requested.network === "egress" && report.data.grant.network === "none" && (
            <p className={layout.dimmed}>
              The author requests network access. To grant it, name the domains in the{" "}
              <Link to="/bindings/$id" params={{ id: binding_id }}>
                policy of the binding
              </Link>
              .
            </p>
          )}
          <UsedPermissions binding_id={binding_id} />
        </div>
      )}
    </Card>
  );
}

/** Allowed connections are not recorded; refused ones are. */
function UsedPermissions({ binding_id }: { binding_id: string }) {
  const calls = useInfiniteQuery(invocationQueries.list(useClient(), { binding_id }, RECENT));
  const rows = useRows(calls);
  if (!calls.isSuccess) return null;
  return (
    <div className={layout.tight}>
      <h3 className={layout.subtitle}>
        {rows.length === 0 ? "Used" : `Used by the last ${countText(rows.length, "call")}`}
      </h3>
      <ul className={layout.sentences}>
        {describeUse(rows).map(({ tone, text }) => (
          <Sentence key={text} tone={tone} icon={tone === "bad" ? "octagon" : "check"}>
            {text}
          </Sentence>
        ))}
      </ul>
    </div>
  );
}

function describeUse(calls: readonly Invocation[]): { tone: "bad" | "quiet"; text: string }[] {
  if (calls.length === 0) return [{ tone: "quiet", text: "The binding has not been called yet." }];
  const refused = new Set(
    calls.flatMap(({ egress }) => egress?.refusals.map(({ host, port }) => `${host}:${port}`) ?? []),
  );
  const with_network = calls.filter(({ grant }) => grant?.network === "egress").length;
  const secrets = new Set(calls.flatMap(({ grant }) => grant?.secret_slots ?? []));
  return [
    { tone: "quiet", text: `${countText(with_network, "call")} had network access.` },
    {
      tone: "quiet",
      text: secrets.size === 0 ? "No call received a secret." : `Calls received ${[...secrets].join(", ")}.`,
    },
    refused.size === 0
      ? { tone: "quiet", text: "No connection was refused." }
      : { tone: "bad", text: `Connections to ${[...refused].join(", ")} were refused.` },
  ];
}
