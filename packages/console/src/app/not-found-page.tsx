import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { PageHeader } from "../parts/layout/page-header.tsx";

export function NotFoundPage() {
  return (
    <>
      <PageHeader title="This page does not exist" />
      <p>
        Check the address, or go{" "}
        <Anchor component={Link} to="/">
          home
        </Anchor>
        .
      </p>
    </>
  );
}
