/** The entries of the catalogs, and servers of a public registry, which nobody has reviewed. */
import {
  type ListedServer,
  type MarketplaceCard,
  type MarketplaceOrigin,
  permissionDetails,
} from "@backplane/contract";
import { Button, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useDeferredValue } from "react";
import { marketplaceQueries } from "../../api/marketplace.ts";
import { useClient } from "../../api/services.ts";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Sentence } from "../../parts/values/permission-list.tsx";
import { Time } from "../../parts/values/time.tsx";
import styles from "./marketplace.module.css";

export function MarketplacePage() {
  const client = useClient();
  const search = useSearch({ from: "/marketplace" });
  const setFilters = useSetFilters<typeof search>();
  const text = useDeferredValue(search.q?.trim());
  const cards = useQuery({ ...marketplaceQueries.list(client, text), placeholderData: (before) => before });
  return (
    <>
      <PageHeader
        title="Marketplace"
        lead="Plugins from catalogs. Each card shows whether the plugin was reviewed and what it will be able to do."
      />
      <search className={parts.filters} aria-label="Filters">
        <TextInput
          aria-label="Search the marketplace"
          placeholder="What should the plugin do?"
          leftSection={<Icon name="search" size={16} />}
          w="20rem"
          value={search.q ?? ""}
          onChange={({ currentTarget }) => setFilters({ q: currentTarget.value || undefined })}
        />
      </search>
      <div className={layout.stack}>
        {cards.isError && cards.data === undefined && (
          <ErrorView error={cards.error} onRetry={() => void cards.refetch()} />
        )}
        {cards.isPending && <ListSkeleton />}
        {cards.data?.catalogs.map((origin) => (
          <OriginProblem key={origin.location} origin={origin} />
        ))}
        {cards.data?.items.length === 0 && (
          <div className={parts.card}>
            <EmptyView
              icon="market"
              command="backplane plugin search TEXT"
              action={
                <Button component={Link} to="/plugins/install">
                  Install from another source
                </Button>
              }
            >
              {text === undefined || text === ""
                ? "The marketplace has no entries."
                : "No entry of the marketplace matches this text."}
            </EmptyView>
          </div>
        )}
        <ul className={layout.cards}>
          {cards.data?.items.map((card) => (
            <li key={card.id}>
              <EntryCard card={card} />
            </li>
          ))}
        </ul>
        {text !== undefined && text.length > 1 && <PublicServers text={text} />}
      </div>
    </>
  );
}

function OriginProblem({ origin: { name, problem, fetched_at } }: { origin: MarketplaceOrigin }) {
  if (problem === null) return null;
  return (
    <Notice tone="warn" title={`${name} cannot be read`}>
      <p>
        {problem}{" "}
        {fetched_at === null ? (
          "The entries of this catalog are missing here."
        ) : (
          <>
            The copy from <Time at={fetched_at} /> is shown.
          </>
        )}
      </p>
    </Notice>
  );
}

/** An entry without a published artifact has no Install button: it describes what an adapter would have to do. */
function EntryCard({ card }: { card: MarketplaceCard }) {
  const { id, name, description, publisher, installable, review, in_use, package: pkg } = card;
  return (
    <article className={`${parts.card} ${styles.card}`} aria-label={name}>
      <div className={layout.between}>
        <h2 className={styles.name}>
          <RowLink to="/marketplace/$id" params={{ id }}>
            {name}
          </RowLink>
        </h2>
        {installable ? (
          <Badge tone={review.status === "reviewed" ? "good" : "warn"} icon="approval">
            {review.status === "reviewed" ? "Reviewed" : "Not reviewed"}
          </Badge>
        ) : (
          <Badge tone="quiet" icon="clock">
            Not published yet
          </Badge>
        )}
      </div>
      <p className={styles.publisher}>
        {publisher.name} · {pkg.version} · {[...new Set(pkg.exports.map(({ kind }) => kind))].join(", ")}
        {in_use.length > 0 && ` · ${in_use.join(", ")} in use`}
      </p>
      <p className={styles.description}>{description}</p>
      <ul className={layout.sentences}>
        {permissionDetails(card.permissions)
          .filter(({ granted }) => granted)
          .map(({ permission, sentence }) => (
            <Sentence key={permission} tone="warn" icon="alert">
              {sentence}
            </Sentence>
          ))}
      </ul>
      <div className={styles.foot}>
        <span className={`${layout.small} ${layout.dimmed}`}>
          {card.tokens === 0
            ? "Adds nothing to model requests"
            : `About ${card.tokens} tokens per model request`}
        </span>
        <Button
          component={Link}
          to="/marketplace/$id"
          params={{ id } as never}
          size="xs"
          variant={installable ? "light" : "default"}
        >
          {installable ? "Review and install" : "Details"}
        </Button>
      </div>
    </article>
  );
}

function PublicServers({ text }: { text: string }) {
  const servers = useQuery(marketplaceQueries.servers(useClient(), text));
  if (servers.isPending) return null;
  if (servers.isError) return <ErrorView error={servers.error} onRetry={() => void servers.refetch()} />;
  const { items, registry } = servers.data;
  if (registry === null)
    return (
      <p className={layout.dimmed}>
        To search a public registry of MCP servers as well, set <code>marketplace.mcp_registry</code> in
        backplane.toml.
      </p>
    );
  return (
    <section className={layout.tight} aria-label="Public registry">
      <h2 className={styles.heading}>Public registry, not reviewed</h2>
      <OriginProblem origin={registry} />
      {items.length === 0 && <p className={layout.dimmed}>No server of the registry matches this text.</p>}
      <ul className={layout.cards}>
        {items.map((server) => (
          <li key={server.name}>
            <ServerCard server={server} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function ServerCard({
  server: { name, description, version, sources, variables },
}: {
  server: ListedServer;
}) {
  const source = sources[0];
  return (
    <article className={`${parts.card} ${styles.card}`} aria-label={name}>
      <div className={layout.between}>
        <h3 className={styles.name}>{name}</h3>
        <Badge tone="warn" icon="question">
          Not reviewed
        </Badge>
      </div>
      <p className={styles.publisher}>
        {version}
        {variables.length > 0 && ` · needs ${variables.map((variable) => variable.name).join(", ")}`}
      </p>
      <p className={styles.description}>{description}</p>
      <div className={styles.foot}>
        <code>{source ?? "None of its packages can be installed."}</code>
        {source !== undefined && (
          <Button
            component={Link}
            to="/plugins/install"
            search={{ source } as never}
            size="xs"
            variant="default"
          >
            Review
          </Button>
        )}
      </div>
    </article>
  );
}
