if (ARGC != 2) { print "usage: gnuplot -d -c sweep_memory.gp DATA.csv OUT.svg|.png"; exit status 2 }

# Memory of one GPU by series: one lying bar each, weights and room for KV, with the tokens that it
# holds. Columns by name: series (0, 1, ...), label, weights_gpu_gib, kv_gpu_gib, kv_tokens.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1.
stats ARG1 using (column("weights_gpu_gib") + column("kv_gpu_gib")) name "GIB" nooutput
if (!exists("GIB_max")) exit status 1
bars = int(GIB_records)

# Fixed width; the height grows with the number of bars only.
height = 170 + 60 * bars
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height


set label 1 "Memory of one GPU (GiB), and what its KV room holds" at screen 0.5, y(height - 26) \
    center font title_font
set xrange [0 : GIB_max * 1.02]
set yrange [bars - 0.5 : -0.62]
set border 1 lc rgb "#595959"
set xtics nomirror out tc rgb "#404040"
unset ytics
set grid xtics lc rgb "#d9d9d9" lt 1 lw 1
set style fill solid 1.0 border rgb "white"
set key at screen 0.5, y(34) center center horizontal Left reverse samplen 1.2 width 1
set lmargin at screen 0.03
set rmargin at screen 0.965
set tmargin at screen y(height - 58)
set bmargin at screen y(92)

half = 0.24 # of a bar's height; the name stands above the bar
w = "weights_gpu_gib"
k = "kv_gpu_gib"
thousands(n) = n >= 1e6 ? sprintf("%.2f M", n / 1e6) : sprintf("%.0f k", n / 1e3)
plot ARG1 using (column(w) / 2):0:(0):(column(w)):($0 - half):($0 + half) \
       with boxxyerror lc rgb "#0072B2" title "weights", \
     ARG1 using (column(w)):0:(column(w)):(column(w) + column(k)):($0 - half):($0 + half) \
       with boxxyerror lc rgb "#D55E00" title "room for KV", \
     ARG1 using (column(w) / 2):0:(sprintf("%.1f", column(w))) with labels tc rgb "white" notitle, \
     ARG1 using (column(w) + column(k) / 2):0: \
       (sprintf("%.1f: %s tokens", column(k), thousands(column("kv_tokens")))) \
       with labels tc rgb "white" notitle, \
     ARG1 using (0):($0 - half - 0.15):(strcol("label")) with labels left tc rgb "black" notitle
