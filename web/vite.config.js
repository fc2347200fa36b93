import { defineConfig } from 'vite';

// File names carry no hash: the server sends an ETag, and the committed build keeps readable diffs.
export default defineConfig({
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: 'es2020',
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        entryFileNames: 'assets/index.js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/[name][extname]',
      },
    },
  },
  server: { proxy: { '/v1': 'http://127.0.0.1:8420', '/metrics': 'http://127.0.0.1:8420' } },
});
