if (ARGC != 2) { print "usage: gnuplot -c trace_lengths.gp DATA.csv OUT.svg|.png"; exit status 2 }

# Lengths of a trace: the share of requests that have at most so many tokens. Columns by name: label
# (of the trace), side (input, output), tokens, share_percent.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also takes the name.
name = ""
stats ARG1 using (name = strcol("label"), column("tokens")) name "DATA" nooutput
if (!exists("DATA_max")) exit status 1

height = 470
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height

set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set grid xtics ytics lc rgb "#d9d9d9" lt 1 lw 1
set ytics (0, 25, 50, 75, 90, 100)
set label 1 "Lengths of ".name at screen 0.5, y(height - 26) center font title_font
set label 2 "requests (%)" at graph 0, graph 1 left offset 0.3,0.8
set xlabel "at most (tokens)" offset 0,0.3
set lmargin at screen 0.085
set rmargin at screen 0.965
set tmargin at screen y(height - 84)
set bmargin at screen y(100)
set yrange [0 : 101]
# A wide range needs a logarithm to be read; a narrow one would have no tick to read it by.
if (DATA_max > 20 * DATA_min) {
  set logscale x
  set xrange [DATA_min / 1.1 : DATA_max * 1.1]
} else {
  set xrange [0 : DATA_max * 1.05]
}
set key at screen 0.085, y(38) left top horizontal Left reverse samplen 2
of(side) = strcol("side") eq side ? column("tokens") : NaN
plot ARG1 using (of("input")):(column("share_percent")) with steps lw 1.8 lc rgb "#0072B2" \
       title "input tokens", \
     ARG1 using (of("output")):(column("share_percent")) with steps lw 1.8 lc rgb "#D55E00" \
       title "output tokens"
