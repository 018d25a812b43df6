import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useState } from "react";
import { type Services, ServicesContext } from "../api/services.ts";
import { ToastProvider } from "../parts/actions/toast.tsx";
import { consoleTheme, createColorSchemeManager } from "../theme/theme.ts";
import { createConsoleRouter } from "./router.tsx";

export function App({ services }: { services: Services }) {
  const [router] = useState(createConsoleRouter);
  const [colors] = useState(createColorSchemeManager);
  return (
    <ServicesContext value={services}>
      <QueryClientProvider client={services.queries}>
        <MantineProvider
          theme={consoleTheme}
          defaultColorScheme="auto"
          colorSchemeManager={colors}
          withCssVariables={false}
          withGlobalClasses={false}
        >
          <ToastProvider>
            <RouterProvider router={router} />
          </ToastProvider>
        </MantineProvider>
      </QueryClientProvider>
    </ServicesContext>
  );
}
