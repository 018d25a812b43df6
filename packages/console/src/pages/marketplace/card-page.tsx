/** One entry of the marketplace: what the plugin will be able to do, whether it was reviewed, and the installation. */
import type { Client } from "@backplane/client";
import { codeOf, type Installation, type MarketplaceCard } from "@backplane/contract";
import { Button, Checkbox } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { marketplaceQueries } from "../../api/marketplace.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import { OperationProgress, useOperation } from "../../parts/notices/operation-progress.tsx";
import layout from "../../parts/styles/layout.module.css";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { Badge } from "../../parts/values/badge.tsx";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { PermissionList, Sentence } from "../../parts/values/permission-list.tsx";
import { Time } from "../../parts/values/time.tsx";

export function CardPage() {
  const { id } = useParams({ from: "/marketplace/$id" });
  const query = useQuery(marketplaceQueries.detail(useClient(), id));
  if (query.isPending) return <ListSkeleton />;
  if (query.data === undefined)
    return (
      <>
        <PageHeader
          title={codeOf(query.error) === "marketplace.not_found" ? "No such entry" : "Marketplace"}
        />
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      </>
    );
  return <CardDetail card={query.data} />;
}

function CardDetail({ card }: { card: MarketplaceCard }) {
  const { name, description, installable, reason, contract, publisher, review, source, package: pkg } = card;
  return (
    <>
      <PageHeader
        title={name}
        badge={
          installable ? null : (
            <Badge tone="quiet" icon="clock">
              Not published yet
            </Badge>
          )
        }
        lead={description}
      />
      <div className={layout.stack}>
        {!installable && (
          <Notice tone="info" title="This entry cannot be installed">
            <p>{reason}</p>
          </Notice>
        )}
        <div className={layout.pair}>
          <Card title="What the plugin will be able to do">
            <PermissionList permissions={card.permissions} />
          </Card>
          <Card title="Details">
            <Fields
              items={[
                ["Package", `${pkg.package_id} ${pkg.version}`],
                ["In use", card.in_use.length === 0 ? null : card.in_use.join(", ")],
                ["Exports", pkg.exports.map(({ id, kind }) => `${id} (${kind})`).join(", ")],
                [
                  "Publisher",
                  publisher.url === null ? (
                    publisher.name
                  ) : (
                    <a key="url" href={publisher.url}>
                      {publisher.name}
                    </a>
                  ),
                ],
                ["Review", reviewText(review)],
                ["License", source.license],
                [
                  "Source",
                  source.url === null ? null : (
                    <a key="source" href={source.url}>
                      {source.url}
                    </a>
                  ),
                ],
                [
                  "Cost",
                  card.tokens === 0
                    ? "Adds nothing to model requests"
                    : `About ${card.tokens} tokens in every request to the model`,
                ],
                ["Artifact", card.oci],
                ["Signed with", card.signature?.key_id ?? null],
                [
                  "Catalog",
                  card.catalog.fetched_at === null ? (
                    card.catalog.name
                  ) : (
                    <span key="catalog">
                      {card.catalog.name}, <Time at={card.catalog.fetched_at} />
                    </span>
                  ),
                ],
              ]}
            />
          </Card>
        </div>
        {card.upgrades.map(({ from, changes }) => (
          <Card key={from} title={`What changes from ${from} to ${pkg.version}`}>
            <CardChanges changes={changes} />
          </Card>
        ))}
        {contract !== null && (
          <Card title={`What a ${contract.kind} for this entry has to do`}>
            <ul>
              {contract.requirements.map((requirement) => (
                <li key={requirement}>{requirement}</li>
              ))}
            </ul>
            <p className={layout.dimmed}>See {contract.document}.</p>
          </Card>
        )}
        {installable && <InstallCard card={card} />}
      </div>
    </>
  );
}

function CardChanges({ changes }: Pick<MarketplaceCard["upgrades"][number], "changes">) {
  if (changes.length === 0) return <p className={layout.text}>The exports and permissions do not change.</p>;
  return (
    <ul className={layout.sentences}>
      {changes.map(({ text, riskier }) => (
        <Sentence key={text} tone={riskier ? "warn" : "quiet"} icon={riskier ? "alert" : "dot"}>
          {text}
        </Sentence>
      ))}
    </ul>
  );
}

function InstallCard({ card }: { card: MarketplaceCard }) {
  const { id, name, oci, key_trusted, signature, install_policy, upgrades, package: pkg } = card;
  const { queries } = useServices();
  const navigate = useNavigate();
  const toast = useToast();
  // The bindings keep their version until the upgrade is reviewed.
  const is_upgrade = upgrades.length > 0;
  const [bind_chosen, setBindChosen] = useState(install_policy.bind);
  const bind = bind_chosen && !is_upgrade;
  // The request names the artifact that is shown, because the catalog can replace it at any time.
  const settings = { bind, ...(oci === null ? {} : { oci }) };
  const install = useOperation(
    (client: Client) => client.marketplace.install(id, settings),
    (installation: Installation) => {
      toast.show({ tone: "good", title: `${name} is installed.` });
      void Promise.all(
        ["packages", "bindings", "catalog", "marketplace"].map((noun) =>
          queries.invalidateQueries({ queryKey: [noun] }),
        ),
      );
      const offers_upgrade = is_upgrade || installation.upgrade !== undefined;
      void navigate({
        to: offers_upgrade ? "/upgrades/$id" : "/plugins/$id",
        params: { id: installation.packages[0]!.package.id },
      });
    },
  );
  return (
    <Card title="Install">
      <div className={layout.form}>
        {key_trusted === false && (
          <Notice
            tone="warn"
            title="The publisher's key is not trusted here"
            actions={
              <Button
                component={Link}
                to="/settings"
                search={{ view: "signing" } as never}
                size="xs"
                variant="default"
              >
                Trust a key
              </Button>
            }
          >
            <p>
              The package is signed with <code>{signature?.key_id}</code>. An installation may be refused
              until you trust that key.
            </p>
          </Notice>
        )}
        {is_upgrade ? (
          <p className={layout.text}>
            {upgrades.map(({ from }) => from).join(", ")} stays in use until you have reviewed the upgrade to{" "}
            {pkg.version}.
          </p>
        ) : (
          <Checkbox
            label="Make the exports callable now"
            checked={bind}
            onChange={({ currentTarget }) => setBindChosen(currentTarget.checked)}
          />
        )}
        {install.error !== null && <ErrorView error={install.error} />}
        {install.running ? (
          <OperationProgress label="Installing" progress={install.progress} onCancel={install.cancel} />
        ) : (
          <div className={layout.row}>
            <Button onClick={() => install.run()}>
              {is_upgrade ? "Install and review the upgrade" : "Install"}
            </Button>
          </div>
        )}
        <CliCommand
          command={shellCommand(
            "backplane",
            "plugin",
            ...(is_upgrade
              ? ["upgrade", pkg.package_id, "--from", `marketplace:${id}`]
              : ["install", `marketplace:${id}`, bind ? "--bind" : "--no-bind"]),
          )}
        />
      </div>
    </Card>
  );
}

function reviewText({ status, reviewed_at, notes }: MarketplaceCard["review"]): string {
  const when = reviewed_at === null ? "" : ` on ${reviewed_at.slice(0, 10)}`;
  return `${status === "reviewed" ? `Reviewed${when}` : "Not reviewed"}${notes === null ? "" : `: ${notes}`}`;
}
