/** The last failed calls of each binding of a package, with the end of their stderr. */
import type { Binding } from "@backplane/contract";
import { useInfiniteQuery } from "@tanstack/react-query";
import { FAILURE_STATUSES, invocationQueries } from "../../api/invocations.ts";
import { useClient } from "../../api/services.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { CodeBlock } from "../../parts/values/json-view.tsx";
import { Time } from "../../parts/values/time.tsx";

const SHOWN = 5;

export function PackageFailures({ bindings }: { bindings: readonly Binding[] }) {
  if (bindings.length === 0)
    return (
      <div className={parts.card}>
        <EmptyView icon="check">No export of this package is bound, so no call could fail.</EmptyView>
      </div>
    );
  return (
    <div className={layout.stack}>
      {bindings.map(({ binding_id, export_id }) => (
        <BindingFailures
          key={binding_id}
          binding_id={binding_id}
          label={export_id === "*" ? "All tools" : export_id}
        />
      ))}
    </div>
  );
}

function BindingFailures({ binding_id, label }: { binding_id: string; label: string }) {
  const failed = useInfiniteQuery(
    invocationQueries.list(useClient(), { binding_id, status: FAILURE_STATUSES }, SHOWN),
  );
  const calls = useRows(failed).slice(0, SHOWN);
  return (
    <section className={parts.card} aria-label={`Failures of ${label}`}>
      <div className={parts.cardHeader}>
        <h2 className={parts.cardTitle}>{label}</h2>
      </div>
      {failed.isPending && <ListSkeleton />}
      {failed.isError && <ErrorView error={failed.error} onRetry={() => void failed.refetch()} />}
      {failed.isSuccess && calls.length === 0 && <EmptyView icon="check">No call has failed.</EmptyView>}
      <ul className={layout.plainList}>
        {calls.map(({ id, export_id, error, stderr_tail, created_at }) => (
          <li key={id} className={layout.listItem}>
            <div className={layout.between}>
              <RowLink to="/invocations/$id" params={{ id }}>
                {export_id}: {error?.message ?? "The call failed without a message."}
              </RowLink>
              <Time at={created_at} />
            </div>
            <p className={layout.dimmed}>
              <code>{error?.code}</code>
            </p>
            {stderr_tail !== null && stderr_tail !== "" && (
              <CodeBlock text={stderr_tail} label={`stderr of ${export_id}`} />
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
