import { defineConfig } from 'vite';

// The Host header stays the page's, or the server would refuse its Origin.
const API = { target: 'http://127.0.0.1:8420', changeOrigin: false };

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
  server: { proxy: { '/v1': API, '/metrics': API } },
});
